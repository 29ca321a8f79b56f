"""Whether the differences that the paper reports hold over our seeds."""

from typing import NamedTuple

from tools.results.cells import NO_RUN, number, table
from tools.results.experiments import DATASETS, METHODS, SETTINGS, Setting
from tools.results.runs import Runs
from tools.results.spread import Difference


class Comparison(NamedTuple):
    """Two methods at a setting: what the paper reports, and ours where they share a seed."""

    setting: Setting
    paper: float | None
    ours: Difference | None

    def reading(self) -> str:
        """Say what the interval includes."""
        if self.ours is None:
            return "-"
        if self.ours.interval is None:
            return "needs a second seed"
        zero = f"{_verb(self.ours, 0)} 0"
        return zero if self.paper is None else f"{zero}, {_verb(self.ours, self.paper)} the paper's"


def compare(runs: Runs, method: str, other: str) -> list[Comparison]:
    """Return method minus other at every setting."""
    return [
        Comparison(setting, _paper(runs, first, second), Difference.paired(runs.values(first), runs.values(second)))
        for setting in SETTINGS
        for first, second in [(setting.recipe(method), setting.recipe(other))]
    ]


def difference_table(runs: Runs, method: str, other: str) -> str:
    """Return one row a setting."""
    return table(
        [
            {
                "data": DATASETS[comparison.setting.dataset],
                "imbalance": str(comparison.setting.imbalance),
                "epochs": str(comparison.setting.epochs),
                "paper": number(comparison.paper, 1, signed=True),
                "ours": NO_RUN if ours is None else f"{ours.mean:+.2f} ({ours.n})",
                "95 % interval": "{:+.2f} to {:+.2f}".format(*ours.interval) if ours and ours.interval else "-",
                "the interval": comparison.reading(),
            }
            for comparison in compare(runs, method, other)
            for ours in [comparison.ours]
        ]
    )


def distance_sentence(runs: Runs, method: str) -> str:
    """Say how far the best epoch is from the paper's, over the settings that were run."""
    pairs = [
        (best.mean, paper)
        for setting in SETTINGS
        for recipe in [setting.recipe(method)]
        if (best := runs.spread(recipe, "best_top1")) is not None and (paper := runs.paper(recipe)) is not None
    ]
    if not pairs:
        return ""
    gaps = sorted(best - paper for best, paper in pairs)
    return (
        f"Over {len(gaps)} settings, the best epoch of {METHODS[method]} is {gaps[0]:+.1f} to {gaps[-1]:+.1f} points\n"
        "from what the paper reports, which is the same of single runs."
    )


def difference_sentences(runs: Runs, method: str, other: str) -> str:
    """Say where the interval excludes 0 and where it does not."""
    found = [
        (f"{DATASETS[setting.dataset]} at imbalance {setting.imbalance}, {setting.epochs} epochs (n = {ours.n})", ours)
        for setting, _, ours in compare(runs, method, other)
        if ours is not None and ours.interval is not None
    ]
    names = f"{METHODS[method]} over {METHODS[other]}"
    if not found:
        return f"{names}: no setting has two seeds of both yet."
    places = {
        f"The interval excludes 0 and {METHODS[method]} is better": [
            place for place, ours in found if not ours.includes(0) and ours.mean > 0
        ],
        f"The interval excludes 0 and {METHODS[method]} is worse": [
            place for place, ours in found if not ours.includes(0) and ours.mean < 0
        ],
        "The interval includes 0": [place for place, ours in found if ours.includes(0)],
    }
    sentences = [f"{what}: {'; '.join(where)}." for what, where in places.items() if where]
    return " ".join([f"{names}: {len(found)} of {len(SETTINGS)} settings have two seeds or more.", *sentences])


def _paper(runs: Runs, first: str, second: str) -> float | None:
    numbers = runs.paper(first), runs.paper(second)
    return None if numbers[0] is None or numbers[1] is None else numbers[0] - numbers[1]


def _verb(difference: Difference, value: float) -> str:
    return "includes" if difference.includes(value) else "excludes"
