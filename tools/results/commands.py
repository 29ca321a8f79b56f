"""The commands that make the runs of a table: one for each set of data."""

from collections.abc import Iterable
from textwrap import wrap

from tools.results.runs import Runs

_SOURCES = {"cifar10": "CIFAR10", "cifar100": "CIFAR100"}  # and how the place of the data is called
_WIDTH = 118
_KEPT = "\x00"  # a space at which no line ends


def commands(runs: Runs, recipes: Iterable[str]) -> str:
    """Return the commands that make the runs of recipes, as a block of Markdown; nothing where no recipe is there.

    Seeds are those of all their runs, 0 where there is none; what ships with the package has no place and, made on a
    CPU, no lanes.
    """
    by_source: dict[str, list[str]] = {}
    for recipe in dict.fromkeys(recipes):
        if recipe in runs.recipes:
            by_source.setdefault(_source(runs, recipe), []).append(recipe)
    if not by_source:
        return ""
    lines = [_command(runs, source, names) for source, names in by_source.items()]
    return "\n".join(["```sh", *lines, "```"])


def _source(runs: Runs, recipe: str) -> str:
    name: str = runs.recipes[recipe]["data"].get("source", {}).get("name", "")
    return name


def _command(runs: Runs, source: str, recipes: list[str]) -> str:
    seeds = sorted({entry["seed"] for entry in [*runs.tested, *runs.choosing] if entry["recipe"] in recipes}) or [0]
    words = ["proco compare", *recipes, " ".join(["--seeds", *map(str, seeds)])]
    words += ["--lanes 4"] if source in _SOURCES else []
    words += ["--results results"]
    words += [f"data.source.path={_SOURCES[source]}"] if source in _SOURCES else []
    together = " ".join(word.replace(" ", _KEPT) for word in words)
    lines = wrap(together, _WIDTH, break_long_words=False, break_on_hyphens=False)
    return " \\\n  ".join(lines).replace(_KEPT, " ")
