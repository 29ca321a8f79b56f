"""Mean and spread of a figure over the seeds of a recipe, and the difference of two recipes seed by seed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import mean, stdev
from typing import NamedTuple

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
    """A mean difference over n pairs of runs and its t-interval, None where nothing shows how they scatter."""

    mean: float
    interval: tuple[float, float] | None
    n: int

    @classmethod
    def of(
        cls, samples: Sequence[Sequence[float]], scatter: "Scatter | None", *, beside_single: bool = False
    ) -> "Difference":
        """Summarise samples, each of one difference or more: the mean of their means, each counting the same.

        scatter: known from these or others as well. beside_single: the interval is for comparing with single
        differences, one a sample, that scatter as these do.
        """
        middle, n = mean(mean(sample) for sample in samples), sum(map(len, samples))
        if scatter is None:
            return cls(middle, None, n)
        variances = [1 / len(sample) + (1 if beside_single else 0) for sample in samples]
        error = scatter.deviation * sqrt(sum(variances)) / len(samples)
        half = float(student_t.ppf((1 + CONFIDENCE) / 2, scatter.freedom)) * error
        return cls(middle, (middle - half, middle + half), n)

    def includes(self, value: float) -> bool:
        """Whether the interval has this value in it."""
        if self.interval is None:
            raise ValueError("a single difference has no interval; ask only where there is one.")
        return self.interval[0] <= value <= self.interval[1]


class Scatter(NamedTuple):
    """The standard deviation of values about the mean of their sample, and from how many degrees of freedom."""

    deviation: float
    freedom: int

    @classmethod
    def pooled(cls, samples: Sequence[Sequence[float]]) -> "Scatter | None":
        """Return the one deviation of several samples, taken to be the same in all; None where each has one value."""
        freedom = sum(len(sample) - 1 for sample in samples)
        if not freedom:
            return None
        squares = sum((value - mean(sample)) ** 2 for sample in samples for value in sample)
        return cls(sqrt(squares / freedom), freedom)


def paired(first: Mapping[int, float], second: Mapping[int, float]) -> list[float]:
    """Return first minus second, values by seed, for the seeds that both have."""
    return [first[seed] - second[seed] for seed in sorted(first.keys() & second.keys())]
