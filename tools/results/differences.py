"""Whether the differences that the paper reports hold over our seeds."""

from statistics import mean
from typing import NamedTuple

from tools.results.cells import NO_RUN, number, table
from tools.results.experiments import DATASETS, METHODS, SETTINGS, Setting
from tools.results.runs import Runs
from tools.results.spread import Difference, Scatter, paired

LAST, BEST = "top1", "best_top1"


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
    last, best = (_Samples.of(runs, method, other, figure) for figure in (LAST, BEST))
    papers = {setting: _paper(runs, setting.recipe(method), setting.recipe(other)) for setting in SETTINGS}
    rows = [Comparison(setting, last.at(setting), best.at(setting), papers[setting]) for setting in SETTINGS]
    if len(last.by_setting) < 2:
        return rows
    reported = [paper for setting in last.by_setting if (paper := papers[setting]) is not None]
    is_complete = len(reported) == len(last.by_setting)
    return [*rows, Comparison(None, last.of_all(), best.of_all(), mean(reported) if is_complete else None)]


def scatter(runs: Runs, method: str, other: str) -> Scatter | None:
    """Return how far differences of the last epoch scatter from seed to seed."""
    return _Samples.of(runs, method, other, LAST).scatter


def difference_table(runs: Runs, method: str, other: str) -> str:
    """Return one row a setting, and one for all; the paper's differences where it reports both methods somewhere."""
    comparisons = compare(runs, method, other)
    is_reported = any(comparison.paper is not None for comparison in comparisons)
    return table([_row(comparison, is_reported=is_reported) for comparison in comparisons])


def verdict_sentence(runs: Runs, method: str, other: str) -> str:
    """Say what the mean of all settings is, beside the paper's."""
    *_, last_row = compare(runs, method, other)
    if last_row.setting is not None or last_row.last is None:
        return "Fewer than two settings have runs of both."
    ours = f"{last_row.last.mean:+.2f} points as the mean of the settings, 95 % interval {_interval(last_row.last)}"
    best = last_row.best
    if last_row.paper is None or best is None:
        return f"{ours}."
    return f"{ours}. In the best epoch {best.mean:+.2f}, {_interval(best)}; the paper has {last_row.paper:+.1f}."


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
    gaps = sorted(best - paper for best, paper in pairs)
    return (
        f"Over {len(gaps)} settings, the best epoch of {METHODS[method]} is {gaps[0]:+.1f} to {gaps[-1]:+.1f} points "
        "from what the paper reports."
    )


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
        row["its interval"] = _interval(comparison.best)
        row["paper"] = number(comparison.paper, 1, signed=True)
    return row | {"the intervals" if is_reported else "the interval": comparison.reading()}


class _Samples(NamedTuple):
    """Differences of a figure, seed by seed, at the settings that have some, and how far they scatter there."""

    by_setting: dict[Setting, list[float]]
    scatter: Scatter | None

    @classmethod
    def of(cls, runs: Runs, method: str, other: str, figure: str) -> "_Samples":
        """Compare two methods."""
        by_setting = {
            setting: differences
            for setting in SETTINGS
            if (differences := paired(*(runs.values(setting.recipe(name), figure) for name in (method, other))))
        }
        return cls(by_setting, Scatter.pooled(list(by_setting.values())))

    def at(self, setting: Setting) -> Difference | None:
        """Return the difference at a setting, None where there is none."""
        differences = self.by_setting.get(setting)
        return None if differences is None else Difference.of(differences, self.scatter)

    def of_all(self) -> Difference:
        """Return the mean over the settings, each counting the same."""
        return Difference.of_means(list(self.by_setting.values()), self.scatter)


def _paper(runs: Runs, first: str, second: str) -> float | None:
    numbers = runs.paper(first), runs.paper(second)
    return None if numbers[0] is None or numbers[1] is None else numbers[0] - numbers[1]


def _interval(difference: Difference | None) -> str:
    return "{:+.2f} to {:+.2f}".format(*difference.interval) if difference and difference.interval else "-"


def _verb(difference: Difference, value: float) -> str:
    return "includes" if difference.includes(value) else "excludes"
