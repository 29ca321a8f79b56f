"""Mean and spread of a figure over the seeds of a recipe, and the difference of two recipes seed by seed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import mean, stdev

from scipy.stats import t as student_t

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Spread:
    """A mean over n seeds and the standard deviation (with n - 1 below); one seed has none."""

    mean: float
    deviation: float | None
    n: int

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        """Summarise one value or more."""
        return cls(mean(values), stdev(values) if len(values) > 1 else None, len(values))

    def __str__(self) -> str:
        spread = "" if self.deviation is None else f" ± {self.deviation:.2f}"
        return f"{self.mean:.2f}{spread} ({self.n})"


@dataclass(frozen=True)
class Difference:
    """The mean difference over n shared seeds and its t-interval; one seed has no interval."""

    mean: float
    interval: tuple[float, float] | None
    n: int

    @classmethod
    def paired(cls, first: Mapping[int, float], second: Mapping[int, float]) -> "Difference | None":
        """Compare first with second, values by seed, over the seeds both have; None where they share none."""
        differences = [first[seed] - second[seed] for seed in sorted(first.keys() & second.keys())]
        if not differences:
            return None
        spread = Spread.of(differences)
        if spread.deviation is None:
            return cls(spread.mean, None, 1)
        half = float(student_t.ppf((1 + CONFIDENCE) / 2, spread.n - 1)) * spread.deviation / sqrt(spread.n)
        return cls(spread.mean, (spread.mean - half, spread.mean + half), spread.n)

    def includes(self, value: float) -> bool:
        """Whether the interval has this value in it."""
        if self.interval is None:
            raise ValueError("one seed gives no interval; ask only where there is one.")
        return self.interval[0] <= value <= self.interval[1]
