"""The runs that settings were chosen by, on images held out for it."""

from collections.abc import Sequence
from statistics import mean

from tools.results.cells import NO_RUN, number, table
from tools.results.runs import Entry, Runs
from tools.results.spread import Spread, paired
from tools.results.tables import GROUPS

_GROUPS = {figure: name for figure, name in GROUPS.items() if figure != "top1"}


def choice_folders(runs: Runs) -> list[str]:
    """Return the folders of the recipes that settings were chosen by: what is in one has the same base."""
    return sorted({_folder(entry["recipe"]) for entry in runs.choosing})


def choice_table(runs: Runs, folder: str) -> str:
    """Return a row for each recipe of a folder and set of changes to it: its accuracy, and what it is above its base.

    The base of a/b/c is a/b/base, compared with over the seeds that both have. The base comes first, then the others by
    what they gain, then the recipes that wait for a run. What was run and is no recipe any more goes by its last name,
    with the commit at which it was run.
    """
    grouped: dict[tuple[str, str], list[Entry]] = {}
    for entry in runs.choosing:
        if _folder(entry["recipe"]) == folder:
            grouped.setdefault((entry["recipe"], ", ".join(runs.departures(entry))), []).append(entry)
    base = grouped.get((f"{folder}/base", ""), [])
    rows = []
    for (recipe, changes), entries in grouped.items():
        gains = [] if base is entries else paired(_by_seed(entries), _by_seed(base))
        about = runs.recipes.get(recipe, entries[0]["config"]).get("about", "")
        gone = f"{recipe.rpartition('/')[2]} ({entries[0]['commit'][:7]})"
        row = {
            "recipe": recipe if recipe in runs.recipes else gone,
            "what it is": about + (f" With {changes}." if changes else ""),
            "accuracy": str(Spread.of(list(_by_seed(entries).values()))),
            "seeds": ", ".join(str(seed) for seed in sorted(_by_seed(entries))),
            "over base": f"{mean(gains):+.2f} ({len(gains)})" if gains else "-",
            **{name: _mean(entries, figure) for figure, name in _GROUPS.items()},
        }
        rows.append((base is not entries, -mean(gains) if gains else 0.0, row))
    done = [row for *_, row in sorted(rows, key=lambda found: found[:2])]
    return table([*done, *_waiting(runs, folder, {recipe for recipe, _ in grouped})])


def choice_recipes(runs: Runs, folder: str) -> list[str]:
    """Return the recipes of a folder that are there, run or not."""
    return [
        name for name, settings in runs.recipes.items() if _folder(name) == folder and settings["data"].get("left_out")
    ]


def _folder(recipe: str) -> str:
    return recipe.rpartition("/")[0]


def _waiting(runs: Runs, folder: str, run: set[str]) -> list[dict[str, str]]:
    """Return a row for each recipe of a folder that validates on left-out images and has no run."""
    return [
        {"recipe": name, "what it is": runs.recipes[name]["about"], "accuracy": NO_RUN, "seeds": "-", "over base": "-"}
        | dict.fromkeys(_GROUPS.values(), "-")
        for name in choice_recipes(runs, folder)
        if name not in run
    ]


def _by_seed(entries: Sequence[Entry]) -> dict[int, float]:
    """Return the mean accuracy of the classes: a split made of what is left over has them unevenly."""
    return {entry["seed"]: entry["balanced_accuracy"] for entry in entries}


def _mean(entries: Sequence[Entry], figure: str) -> str:
    values = [entry[figure] for entry in entries if entry[figure] is not None]
    return number(mean(values) if values else None)
