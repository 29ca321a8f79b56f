"""The commands that make the runs of a table: one for each set of data, of seeds and each precision."""

from collections import Counter
from collections.abc import Iterable, Sequence
from textwrap import wrap

from tools.results.runs import Runs

_SOURCES = {"cifar10": "CIFAR10", "cifar100": "CIFAR100"}  # and how the place of the data is called
_WIDTH = 118
_KEPT = "\x00"  # a space at which no line ends


def commands(runs: Runs, recipes: Iterable[str]) -> str:
    """Return the commands that make the runs of recipes, as a block of Markdown; nothing where no recipe is there.

    One for each set of data, each set of seeds and each precision, which runs side by side share; what has no run goes
    with most of the others. What ships with the package has no place and, made on a CPU, no lanes.
    """
    there = [recipe for recipe in dict.fromkeys(recipes) if recipe in runs.recipes]
    seeds = {recipe: _seeds(runs, recipe) for recipe in there}
    usual = Counter(found for found in seeds.values() if found).most_common(1)
    default = usual[0][0] if usual else (0,)
    grouped: dict[tuple[str, tuple[int, ...], str], list[str]] = {}
    for recipe in there:
        grouped.setdefault((_source(runs, recipe), seeds[recipe] or default, _precision(runs, recipe)), []).append(
            recipe
        )
    lines = [_command(source, names, found) for (source, found, _), names in grouped.items()]
    return "\n".join(["```sh", *lines, "```"]) if lines else ""


def _source(runs: Runs, recipe: str) -> str:
    name: str = runs.recipes[recipe]["data"].get("source", {}).get("name", "")
    return name


def _precision(runs: Runs, recipe: str) -> str:
    precision: str = runs.recipes[recipe].get("engine", {}).get("precision", "auto")
    return precision


def _seeds(runs: Runs, recipe: str) -> tuple[int, ...]:
    return tuple(sorted({entry["seed"] for entry in [*runs.tested, *runs.choosing] if entry["recipe"] == recipe}))


def _command(source: str, recipes: Sequence[str], seeds: Sequence[int]) -> str:
    words = ["proco compare", *recipes, " ".join(["--seeds", *map(str, seeds)])]
    words += ["--lanes 4"] if source in _SOURCES else []
    words += ["--results results"]
    words += [f"data.source.path={_SOURCES[source]}"] if source in _SOURCES else []
    together = " ".join(word.replace(" ", _KEPT) for word in words)
    lines = wrap(together, _WIDTH, break_long_words=False, break_on_hyphens=False)
    return " \\\n  ".join(lines).replace(_KEPT, " ")
