"""A data set in numbers: how many images, of how many classes, how unevenly."""

from collections.abc import Mapping
from dataclasses import dataclass

from proco.data.dataset import Dataset


@dataclass(frozen=True)
class Description:
    """What `describe` finds. Counts are of training images."""

    name: str
    split_sizes: Mapping[str, int]
    class_counts: Mapping[str, int]
    """By name, the largest class first; classes of one size in the order of their labels."""
    num_classes: int
    largest: int
    smallest: int
    median: float
    imbalance: float
    """The largest count over the smallest."""
    notes: tuple[str, ...]


def describe(dataset: Dataset) -> Description:
    """Count the images of each split and of each class."""
    counts = dataset.class_counts
    order = counts.sort(descending=True, stable=True).indices.tolist()
    largest, smallest = int(counts.max()), int(counts.min())
    return Description(
        name=dataset.name,
        split_sizes={name: len(split) for name, split in dataset.splits.items()},
        class_counts={dataset.class_names[label]: int(counts[label]) for label in order},
        num_classes=dataset.num_classes,
        largest=largest,
        smallest=smallest,
        median=float(counts.double().quantile(0.5)),
        imbalance=largest / smallest,
        notes=dataset.notes,
    )
