"""Descriptions: counted by hand."""

import torch

from proco.data.array_images import ArrayImages
from proco.data.dataset import Dataset, Split
from proco.data.describe import describe


def split_of(labels: list[int]) -> Split:
    return Split(ArrayImages(torch.zeros(len(labels), 1, 2, 2, dtype=torch.uint8)), torch.tensor(labels))


def test_description_is_what_was_counted_by_hand() -> None:
    splits = {"train": split_of([3, 0, 2, 1, 2, 2, 0, 2, 3]), "test": split_of([0, 1])}
    description = describe(Dataset("toys", ("a", "b", "c", "d"), splits, ("a note",)))
    assert description.name == "toys"
    assert description.split_sizes == {"train": 9, "test": 2}
    assert list(description.class_counts.items()) == [("c", 4), ("a", 2), ("d", 2), ("b", 1)]
    assert description.num_classes == 4
    assert (description.largest, description.smallest) == (4, 1)
    assert (description.median, description.imbalance) == (2.0, 4.0)
    assert description.notes == ("a note",)


def test_median_of_an_even_number_lies_between() -> None:
    assert describe(Dataset("toys", ("a", "b"), {"train": split_of([0, 0, 0, 0, 1])})).median == 2.5
