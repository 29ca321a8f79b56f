"""Long-tailed subsets of balanced data, as named index lists with a hash.

Which images are kept changes accuracy by points, so a subset is data, not a side effect: it depends on the labels and
its own seed alone, never on the training seed, and two subsets are the same exactly if their hashes are.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from proco.errors import DataError

Indices = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class IndexList:
    """Positions of the kept samples, class by class, and what was asked for."""

    name: str
    indices: Indices
    class_counts: tuple[int, ...]

    @property
    def hash(self) -> str:
        """The SHA-256 of the indices as little-endian 64-bit numbers."""
        return hashlib.sha256(self.indices.astype("<i8").tobytes()).hexdigest()


def exponential_counts(largest: int, num_classes: int, imbalance: float) -> tuple[int, ...]:
    """Return int(largest imbalance^(-j/(K-1))) for j = 0 ... K-1: the field's CIFAR-LT profile.

    imbalance: largest count over smallest, at least 1.

    >>> exponential_counts(5000, 10, 100)
    (5000, 2997, 1796, 1077, 645, 387, 232, 139, 83, 50)
    """
    _require_profile(largest, num_classes, imbalance)
    # The power of the small number, as the field computes it, so that what is cut off is the same.
    counts = (int(largest * (1 / imbalance) ** (j / max(num_classes - 1, 1))) for j in range(num_classes))
    return tuple(max(count, 1) for count in counts)  # 49 (1/49) is a little less than 1


def step_counts(largest: int, num_classes: int, imbalance: float) -> tuple[int, ...]:
    """Return largest for the first half of the classes and largest/imbalance for the others.

    >>> step_counts(500, 4, 10)
    (500, 500, 50, 50)
    """
    _require_profile(largest, num_classes, imbalance)
    head = num_classes // 2
    return (largest,) * head + (max(int(largest * (1 / imbalance)), 1),) * (num_classes - head)


def pareto_counts(largest: int, num_classes: int, imbalance: float, *, power: float = 6.0) -> tuple[int, ...]:
    """Return evenly spaced quantiles of a Pareto distribution, stretched to [largest/imbalance, largest].

    ImageNet-LT's profile: power 6, from 1280 down to 5 images. That subset is published as a list of files and is read
    as such; how its counts were drawn is not said, so this is a reconstruction, for making the like of it from other
    data. For 1000 classes it gives 115,897 images; the published list has 115,846.
    """
    _require_profile(largest, num_classes, imbalance)
    quantiles = ((np.arange(num_classes) + _PARETO_OFFSET) / num_classes) ** (-1 / power)
    low, high = quantiles[-1], quantiles[0]
    smallest = largest / imbalance
    stretch = (quantiles - low) / (high - low) if num_classes > 1 else np.ones(1)
    return tuple(int(count) for count in smallest + (largest - smallest) * stretch)


# Place of the first quantile, set so that the total at ImageNet-LT's shape is the published one.
_PARETO_OFFSET = 0.81


def keep_counts(
    labels: Sequence[int] | NDArray[np.integer], counts: Sequence[int], name: str, *, seed: int = 0
) -> IndexList:
    """Keep counts[j] samples of each class j, chosen as the field does.

    One NumPy legacy generator with the given seed shuffles the positions of each class in label order, and the first
    counts[j] are kept. With seed 0 these are the images of LDAM, BCL and ProCo.
    """
    array = np.asarray(labels)
    generator = np.random.RandomState(seed)
    kept = []
    for label, count in enumerate(counts):
        positions = np.flatnonzero(array == label)
        if len(positions) < count:
            raise DataError(f"{name}: class {label} has {len(positions)} samples, but {count} are to be kept.")
        generator.shuffle(positions)
        kept.append(positions[:count])
    return IndexList(name, np.concatenate(kept).astype(np.int64), tuple(counts))


def _require_profile(largest: int, num_classes: int, imbalance: float) -> None:
    if largest < 1 or num_classes < 1 or not imbalance >= 1:
        raise DataError(
            "a profile needs a largest count and a number of classes of at least 1 and an imbalance of at least 1; "
            f"got {largest}, {num_classes} and {imbalance}."
        )
    if largest / imbalance < 1:
        raise DataError(f"imbalance {imbalance:g} would leave classes without a sample: the largest has {largest}.")
