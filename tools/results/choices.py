"""The runs that settings were chosen by, on images held out for it."""

from collections.abc import Sequence
from statistics import mean

from tools.results.cells import number, table
from tools.results.runs import Entry, Runs
from tools.results.spread import Difference, Spread
from tools.results.tables import GROUPS


def choice_table(runs: Runs) -> str:
    """Return a row for each recipe and set of changes to it: its accuracy, and by how much it is above its base.

    The base of a/b/c is a/b/base, compared with over the seeds that both have. The base comes first, then the others by
    what they gain.
    """
    grouped: dict[tuple[str, str], list[Entry]] = {}
    for entry in runs.choosing:
        grouped.setdefault((entry["recipe"], ", ".join(runs.departures(entry))), []).append(entry)
    rows = []
    for (recipe, changes), entries in grouped.items():
        base = grouped.get((f"{recipe.rpartition('/')[0]}/base", ""), [])
        gain = None if base is entries else Difference.paired(_by_seed(entries), _by_seed(base))
        row = {
            "recipe": recipe,
            "what it is": _about(runs, entries[0]) + (f" With {changes}." if changes else ""),
            "accuracy": str(Spread.of(list(_by_seed(entries).values()))),
            "over base": "-" if gain is None else f"{number(gain.mean, signed=True)} ({gain.n})",
            **{name: _mean(entries, figure) for figure, name in GROUPS.items() if figure != "top1"},
        }
        rows.append((base is not entries, 0.0 if gain is None else -gain.mean, row))
    return table([row for *_, row in sorted(rows, key=lambda found: found[:2])])


def _by_seed(entries: Sequence[Entry]) -> dict[int, float]:
    """Return the mean accuracy of the classes: a split made of what is left over has them unevenly."""
    return {entry["seed"]: entry["balanced_accuracy"] for entry in entries}


def _about(runs: Runs, entry: Entry) -> str:
    about: str = runs.recipes.get(entry["recipe"], entry["config"]).get("about", "")
    return about


def _mean(entries: Sequence[Entry], figure: str) -> str:
    values = [entry[figure] for entry in entries if entry[figure] is not None]
    return number(mean(values) if values else None)
