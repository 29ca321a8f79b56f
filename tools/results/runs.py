"""The runs of the ledger by recipe and seed, beside the recipes as they stand and what the paper reports for them."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from proco.config import as_settings
from proco.training.ledger import read_entries
from proco.training.recipes import load_recipe, recipe_names
from tools.results.spread import Spread

Entry = dict[str, Any]
# What may differ between runs of one recipe: who they are, how they were computed.
_OWN = ("about", "published", "seed", "made_with", "engine.")
_MATTERING = ("engine.precision",)  # but this may not
_FREE = ("network.options", "teacher.run")  # what is not in them is not set, and did not come into being since


class Runs:
    """Finished runs.

    tested are those that trained on all of their data and were evaluated on the test set; choosing are the others, made
    to choose settings.
    """

    def __init__(self, entries: Sequence[Entry], recipes: Mapping[str, Mapping[str, Any]]) -> None:
        ordered = sorted(entries, key=lambda entry: (_natural(entry["recipe"]), entry["seed"]))
        self.tested = [entry for entry in ordered if not _is_choosing(entry)]
        self.choosing = [entry for entry in ordered if _is_choosing(entry)]
        self.recipes = recipes
        names: list[tuple[Any, ...]] = [(entry["recipe"], entry["seed"]) for entry in self.tested]
        names += [(entry["recipe"], entry["seed"], *self.departures(entry)) for entry in self.choosing]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"two entries for {twice[0][0]}, seed {twice[0][1]}; keep one of them in results/.")

    @classmethod
    def read(cls, results: Path) -> "Runs":
        """Read the ledger, and the recipes of the package."""
        return cls(read_entries(results), {name: as_settings(load_recipe(name)) for name in recipe_names()})

    def of(self, recipe: str) -> list[Entry]:
        """Return the runs of a recipe, by seed."""
        return [entry for entry in self.tested if entry["recipe"] == recipe]

    def values(self, recipe: str, figure: str = "top1") -> dict[int, float]:
        """Return a figure of the runs of a recipe by seed; a figure of a group without classes is left out."""
        return {entry["seed"]: entry[figure] for entry in self.of(recipe) if entry[figure] is not None}

    def spread(self, recipe: str, figure: str = "top1") -> Spread | None:
        """Return mean and spread of a figure; None where there is no run."""
        values = self.values(recipe, figure)
        return Spread.of(list(values.values())) if values else None

    def paper(self, recipe: str, figure: str = "top1") -> float | None:
        """Return what the paper reports, as the recipe has it."""
        number: float | None = self.recipes.get(recipe, {}).get("published", {}).get(figure)
        return number

    def knows(self, recipe: str) -> bool:
        """Whether the recipe is there, or was run."""
        return recipe in self.recipes or bool(self.of(recipe))

    def known(self, prefix: str) -> list[str]:
        """Return the recipes, there or run, whose names begin so."""
        names = {*self.recipes, *(entry["recipe"] for entry in self.tested)}
        return sorted((name for name in names if name.startswith(prefix)), key=_natural)

    def settings(self, recipe: str) -> Mapping[str, Any]:
        """Return the settings a recipe was run with or, before it is run, those it has."""
        runs = self.of(recipe)
        return runs[0]["config"] if runs else self.recipes[recipe]

    def departures(self, entry: Entry) -> list[str]:
        """Return the settings of a run that are not those of its recipe as it stands, as `name=value`.

        Settings that came into being or went since the run are not looked at.
        """
        now = self.recipes.get(entry["recipe"], {})
        found = _differences(entry["config"], now)
        return [f"{name}={value}" for name, value in found if name in _MATTERING or not name.startswith(_OWN)]


def _is_choosing(entry: Entry) -> bool:
    return entry["split"] != "test" or entry["config"]["data"]["validation"] is not None


def _differences(then: Any, now: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the settings of then, by their full names, that now has too, and with another value."""
    if name not in _FREE and isinstance(then, Mapping) and isinstance(now, Mapping):
        for key in (key for key in then if key in now):
            yield from _differences(then[key], now[key], f"{name}.{key}" if name else key)
    elif _is_listing(then) and _is_listing(now) and len(then) != len(now):
        yield f"{name}.length", len(then)
    elif _is_listing(then) and _is_listing(now):
        for number, (before, after) in enumerate(zip(then, now, strict=True)):
            yield from _differences(before, after, f"{name}.{number}")
    elif then != now:
        yield name, then


def _is_listing(settings: Any) -> bool:
    return isinstance(settings, list) and any(isinstance(value, Mapping) for value in settings)


def _natural(recipe: str) -> list[tuple[int, float, str]]:
    """Order numbers in names by size: proco_50 before proco_100."""
    parts = re.split(r"(\d+(?:\.\d+)?)", recipe)
    return [(0, float(part), "") if part[:1].isdigit() else (1, 0.0, part) for part in parts]
