"""Whether the differences that the paper reports hold over our seeds."""

from statistics import mean
from typing import NamedTuple

from tools.results.cells import NO_RUN, number, table
from tools.results.experiments import DATASETS, METHODS, SETTINGS, Setting
from tools.results.runs import Runs
from tools.results.spread import Difference, Scatter, paired

LAST, BEST = "top1", "best_top1"
_ENOUGH_SEEDS = 5


class Comparison(NamedTuple):
    """Two methods at a setting, or at all of them: ours in the last and the best epoch, and what the paper reports."""

    setting: Setting | None
    last: Difference | None
    best: Difference | None
    paper: float | None

    def reading(self) -> str:
        """Say what the intervals include: 0 that of the last epoch, what the paper reports that of the best."""
        if self.last is None or self.best is None:
            return "-"
        if self.last.interval is None:
            return "needs a second seed"
        zero = f"{_verb(self.last, 0)} 0"
        return zero if self.paper is None else f"{zero}, {_verb(self.best, self.paper)} the paper's"


def compare(runs: Runs, method: str, other: str) -> list[Comparison]:
    """Return method minus other at every setting, and at last the mean over the settings that were run.

    Two or three seeds tell little of how far differences scatter, those of all settings together more: intervals are
    made with one deviation for all.
    """
    last = _Samples.of(runs, method, other, LAST)
    best = _Samples.of(runs, method, other, BEST, beside_single=True)
    papers = {setting: _paper(runs, setting.recipe(method), setting.recipe(other)) for setting in SETTINGS}
    rows = [Comparison(setting, last.at(setting), best.at(setting), papers[setting]) for setting in SETTINGS]
    if len(last.by_setting) < 2:
        return rows
    reported = [paper for setting in last.by_setting if (paper := papers[setting]) is not None]
    is_complete = len(reported) == len(last.by_setting)
    return [*rows, Comparison(None, last.of_all(), best.of_all(), mean(reported) if is_complete else None)]


def difference_table(runs: Runs, method: str, other: str) -> str:
    """Return one row a setting, and one for all; the paper's differences where it reports both methods somewhere."""
    comparisons = compare(runs, method, other)
    is_reported = any(comparison.paper is not None for comparison in comparisons)
    return table([_row(comparison, is_reported=is_reported) for comparison in comparisons])


def verdict_sentence(runs: Runs, method: str, other: str) -> str:
    """Say what the difference is over all settings, beside the paper's."""
    *at_each, of_all = compare(runs, method, other)
    means = [row.last.mean for row in at_each if row.last is not None]
    if of_all.setting is not None or of_all.last is None:
        return "Fewer than two settings have runs of both."
    interval = f" (95 % interval {_interval(of_all.last)})" if of_all.last.interval else ""
    ours = f"{min(means):+.1f} to {max(means):+.1f} points by setting, {of_all.last.mean:+.2f} in their mean{interval}"
    return f"{ours}." if of_all.paper is None else f"{ours}; the paper has {of_all.paper:+.1f} in the mean."


def few_seeds_sentence(runs: Runs) -> str:
    """Say at how many settings the methods that are closest to each other have the seeds that this asks for."""
    close = ("proco", "bcl")
    found = [
        len(paired(*(runs.values(setting.recipe(method)) for method in close))) >= _ENOUGH_SEEDS for setting in SETTINGS
    ]
    names = " and ".join(METHODS[method] for method in close)
    return (
        f"The difference of {names} is small and asks for {_ENOUGH_SEEDS} seeds: {sum(found)} of {len(found)} settings "
        "have them."
    )


def distance_sentence(runs: Runs, method: str) -> str:
    """Say how far the best epoch is from the paper's, over the settings that were run."""
    pairs = [
        (best.mean, paper)
        for setting in SETTINGS
        for recipe in [setting.recipe(method)]
        if (best := runs.spread(recipe, BEST)) is not None and (paper := runs.paper(recipe)) is not None
    ]
    if not pairs:
        return f"{METHODS[method]} has no run yet where the paper has one."
    gaps = sorted(paper - best for best, paper in pairs)
    far = f"{gaps[0]:.1f} to {gaps[-1]:.1f}" if len(gaps) > 1 else f"{gaps[0]:.1f}"
    return f"In its best epoch {METHODS[method]} is {far} points below what the paper reports ({len(gaps)} settings)."


def _row(comparison: Comparison, *, is_reported: bool) -> dict[str, str]:
    setting = comparison.setting
    row = {
        "data": "mean of all" if setting is None else DATASETS[setting.dataset],
        "imbalance": "" if setting is None else str(setting.imbalance),
        "epochs": "" if setting is None else str(setting.epochs),
        "last epoch": NO_RUN if comparison.last is None else f"{comparison.last.mean:+.2f} ({comparison.last.n})",
        "95 % interval": _interval(comparison.last),
    }
    if is_reported:
        row["best epoch"] = number(comparison.best and comparison.best.mean, signed=True)
        row["for single runs"] = _interval(comparison.best)
        row["paper"] = number(comparison.paper, 1, signed=True)
    return row | {"the intervals" if is_reported else "the interval": comparison.reading()}


class _Samples(NamedTuple):
    """Differences of a figure, seed by seed, at the settings that have some, and how far they scatter there."""

    by_setting: dict[Setting, list[float]]
    scatter: Scatter | None
    beside_single: bool

    @classmethod
    def of(cls, runs: Runs, method: str, other: str, figure: str, *, beside_single: bool = False) -> "_Samples":
        """Compare two methods; beside_single: for comparing with the differences of single runs."""
        by_setting = {
            setting: differences
            for setting in SETTINGS
            if (differences := paired(*(runs.values(setting.recipe(name), figure) for name in (method, other))))
        }
        return cls(by_setting, Scatter.pooled(list(by_setting.values())), beside_single)

    def at(self, setting: Setting) -> Difference | None:
        """Return the difference at a setting, None where there is none."""
        differences = self.by_setting.get(setting)
        return None if differences is None else self._summarise([differences])

    def of_all(self) -> Difference:
        """Return the mean over the settings, each counting the same."""
        return self._summarise(list(self.by_setting.values()))

    def _summarise(self, samples: list[list[float]]) -> Difference:
        return Difference.of(samples, self.scatter, beside_single=self.beside_single)


def _paper(runs: Runs, first: str, second: str) -> float | None:
    numbers = runs.paper(first), runs.paper(second)
    return None if numbers[0] is None or numbers[1] is None else numbers[0] - numbers[1]


def _interval(difference: Difference | None) -> str:
    return "{:+.2f} to {:+.2f}".format(*difference.interval) if difference and difference.interval else "-"


def _verb(difference: Difference, value: float) -> str:
    return "includes" if difference.includes(value) else "excludes"
