"""A data set: named splits of images and labels, with notes on everything that was done to it."""

import hashlib
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from proco.data.file_images import NOT_UTF_8
from proco.data.images import Images
from proco.data.long_tail import IndexList, keep_counts
from proco.errors import DataError
from proco.losses.class_counts import class_counts_from_labels

SPLITS = ("train", "val", "test")
SPLIT_WORDS = {
    "train": "train", "training": "train", "val": "val", "valid": "val", "validation": "val", "test": "test",
    "testing": "test",
}  # fmt: skip
"""What a split may be called in folders, lists and arrays."""
_NAMED_CLASSES = 5
_MOST_EMPTY_CLASSES = 10**6


@dataclass(frozen=True, eq=False)
class Split:
    """Images and their labels, int64 (N,) on the CPU."""

    images: Images
    labels: Tensor

    def __post_init__(self) -> None:
        if self.labels.dtype != torch.int64 or self.labels.dim() != 1:
            raise DataError(
                f"labels must be int64 of shape (N,); got {self.labels.dtype} of shape {tuple(self.labels.shape)}."
            )
        if len(self.images) != len(self.labels):
            raise DataError(f"there must be one label per image; got {len(self.images)} and {len(self.labels)}.")

    def __len__(self) -> int:
        return len(self.labels)

    def subset(self, positions: Tensor) -> "Split":
        """Return the samples at positions (n,), in that order."""
        return Split(self.images.subset(positions), self.labels[positions])


@dataclass(frozen=True, eq=False)
class Dataset:
    """What is trained and evaluated on: some of the splits "train", "val" and "test".

    Labels are positions in class_names. Data to evaluate on may lack a training split, or classes; see
    `require_trainable`.
    """

    name: str
    class_names: tuple[str, ...]
    splits: Mapping[str, Split]
    notes: tuple[str, ...] = ()
    """Sentences on what a reader of the results should know: images left out, a validation split made, ..."""

    def __post_init__(self) -> None:
        if not self.splits or not set(self.splits) <= set(SPLITS):
            raise DataError(f"{self.name}: splits are train, val and test; got {', '.join(self.splits) or 'none'}.")
        self._require_labels_in_range()
        if len(set(self.class_names)) < self.num_classes:
            repeated = [name for name, number in Counter(self.class_names).items() if number > 1]
            raise DataError(
                f"{self.name}: every class needs a name of its own; got {name_some(repeated)} twice or more."
            )
        if len(channels := {split.images.channels for split in self.splits.values()}) > 1:
            raise DataError(f"{self.name}: splits must have images of the same channels; got {sorted(channels)}.")

    @property
    def num_classes(self) -> int:
        """The number of classes."""
        return len(self.class_names)

    @property
    def class_counts(self) -> Tensor:
        """Training images of each class, int64 (K,)."""
        return class_counts_from_labels(self.splits["train"].labels, self.num_classes)

    @property
    def test_split(self) -> str:
        """The split that results are about: test, or validation where there is no test."""
        return "test" if "test" in self.splits else "val"

    @cached_property
    def hash(self) -> str:
        """The SHA-256 of class names, labels and images of all splits, by which changed data is noticed."""
        content = hashlib.sha256("\0".join(self.class_names).encode(errors=NOT_UTF_8))
        for name in sorted(self.splits):
            split = self.splits[name]
            content.update(name.encode() + split.labels.numpy().astype("<i8").tobytes() + split.images.fingerprint)
        return content.hexdigest()

    def to(self, device: torch.device) -> "Dataset":
        """Return the same with its images kept on the device, where they can be."""
        splits = {name: replace(split, images=split.images.to(device)) for name, split in self.splits.items()}
        return replace(self, splits=splits)

    def with_own_record(self) -> "Dataset":
        """Return the same, with a record of its own of what goes wrong with files; itself where there are none."""
        if not any(split.images.are_slow for split in self.splits.values()):
            return self
        splits = {name: split.subset(torch.arange(len(split))) for name, split in self.splits.items()}
        return replace(self, splits=splits)

    def require_trainable(self) -> None:
        """Refuse data without training images, of fewer than two classes, or with a class that has none."""
        if "train" not in self.splits:
            raise DataError(f"{self.name} has no training images; its splits: {', '.join(self.splits)}.")
        if self.num_classes < 2:
            raise DataError(
                f"{self.name}: at least 2 classes are needed to tell apart; got {name_some(self.class_names)}."
                f"{self._notes_after_an_error()}"
            )
        missing = [self.class_names[label] for label in (self.class_counts == 0).nonzero().flatten().tolist()]
        if missing:
            raise DataError(
                f"{self.name}: every class needs at least one training image; {name_some(missing)} "
                f"({len(missing)} of {self.num_classes} classes) have none. Add images of them, or remove the classes."
                f"{self._notes_after_an_error()}"
            )

    def _require_labels_in_range(self) -> None:
        for name, split in self.splits.items():
            if not len(split):
                raise DataError(f"{self.name}: the {name} split is empty.{self._notes_after_an_error()}")
            low, high = int(split.labels.min()), int(split.labels.max())
            if low < 0 or high >= self.num_classes:
                wrong = low if low < 0 else high
                raise DataError(
                    f"{self.name}: labels of {self.num_classes} classes lie in [0, {self.num_classes - 1}]; "
                    f"got {wrong} in {name}. Labels start at 0."
                )

    def _notes_after_an_error(self) -> str:
        """Return the notes as sentences: what was done before often explains what is missing now."""
        return "".join(f" Note: {note}." for note in self.notes)


def hold_out(dataset: Dataset, share: float, seed: int = 0) -> Dataset:
    """Make a "val" split of a share of each class of "train", rounded (halves up); one image at least stays in "train".

    Which images it takes depends on the labels and the seed alone.
    """
    if "val" in dataset.splits:
        raise DataError(f"{dataset.name} has a validation split already; there is no need to hold images out.")
    if not 0 < share < 1:
        raise DataError(f"the share held out for validation must lie between 0 and 1; got {share:g}.")
    train = dataset.splits["train"]
    held_counts = [max(0, min(int(share * count + 0.5), count - 1)) for count in dataset.class_counts.tolist()]
    if not sum(held_counts):
        largest = int(dataset.class_counts.max())
        least = math.ceil(50 / largest) / 100
        raise DataError(
            f"{dataset.name}: {share:.0%} of each class is not one image: the largest class has {largest}. "
            + (f"Hold out more: data.validation={least:g}." if largest > 1 else "Add images, or a test split.")
        )
    held = keep_counts(train.labels.numpy(), held_counts, f"validation of {dataset.name}", seed=seed).indices
    stay = np.setdiff1d(np.arange(len(train)), held)
    note = f"no validation split: {100 * share:g} % of each class ({len(held)} images) held out from training"
    note += _what_is_not_validated(dataset, held_counts)
    splits = {"train": train.subset(torch.from_numpy(stay)), "val": train.subset(torch.from_numpy(np.sort(held)))}
    return replace(dataset, splits={**dataset.splits, **splits}, notes=(*dataset.notes, note))


def _what_is_not_validated(dataset: Dataset, held_counts: list[int]) -> str:
    """Return what to know of classes without held-out images, as more of a sentence; nothing where all have some."""
    without = [label for label, held in enumerate(held_counts) if not held]
    if not without:
        return ""
    said = f"; {name_some([dataset.class_names[label] for label in without])} ({len(without)} of {len(held_counts)} "
    said += "classes) have too few images for it and are not evaluated"
    if counts := [count for count in dataset.class_counts[without].tolist() if count > 1]:
        said += f", with data.validation={math.ceil(50 / min(counts)) / 100:g} all that have two or more are"
    if len(without) == len(held_counts) - 1:
        alone = next(label for label, held in enumerate(held_counts) if held)
        said += f"; all held-out images are of {dataset.class_names[alone]!r}, and accuracy on one class says nothing"
    return said


def keep_subset(dataset: Dataset, index_list: IndexList) -> Dataset:
    """Restrict "train" to the samples of an index list, in its order, and note its name and hash."""
    train = dataset.splits["train"]
    indices = torch.from_numpy(index_list.indices)
    if len(indices) and not 0 <= int(indices.min()) <= int(indices.max()) < len(train):
        raise DataError(
            f"the subset {index_list.name} reaches to image {int(indices.max())}, but {dataset.name} has {len(train)} "
            "training images. Was it made for other data?"
        )
    counts = np.bincount(train.labels[indices].numpy(), minlength=len(index_list.class_counts))
    if tuple(counts.tolist()) != index_list.class_counts:
        raise DataError(
            f"the subset {index_list.name} does not have the class counts it says it has, with the labels of "
            f"{dataset.name}. Was it made for other data?"
        )
    note = f"training images are the subset {index_list.name}: {len(indices)} images, sha256 {index_list.hash}"
    splits = {**dataset.splits, "train": train.subset(indices)}
    return replace(dataset, splits=splits, notes=(*dataset.notes, note))


def validate_on_left_out(dataset: Dataset, kept: IndexList, most: int, seed: int = 0) -> Dataset:
    """Make a "val" split of images of "train" that are not kept, at most so many a class, and drop "test".

    Which images it takes depends on the labels and the seed alone. A class that is kept whole has none.
    """
    train = dataset.splits["train"]
    left = np.setdiff1d(np.arange(len(train)), kept.indices)
    labels = train.labels.numpy()[left]
    counts = np.minimum(np.bincount(labels, minlength=dataset.num_classes), most).tolist()
    if not sum(counts):
        raise DataError(f"{dataset.name}: the subset {kept.name} leaves no image out to validate on.")
    chosen = left[keep_counts(labels, counts, f"left out of {kept.name}", seed=seed).indices]
    gone = "its own validation split is not used, and no test split" if "val" in dataset.splits else "no test split"
    note = f"validated on {len(chosen)} images that are left out of training, at most {most} a class; {gone}"
    splits = {"train": train, "val": train.subset(torch.from_numpy(np.sort(chosen)))}
    return replace(dataset, splits=splits, notes=(*dataset.notes, note))


def numbered_classes(num_classes: int, num_images: int) -> tuple[str, ...]:
    """Return names for classes that have only numbers; refuse numbers that cannot be those of classes.

    >>> numbered_classes(3, num_images=10)
    ('0', '1', '2')
    """
    if num_classes > num_images + _MOST_EMPTY_CLASSES:
        raise DataError(
            f"labels go up to {num_classes - 1}, but there are {num_images} images. Labels are numbers of classes, "
            "from 0 on, without large gaps; number them anew."
        )
    return tuple(map(str, range(num_classes)))


def name_some(names: Sequence[str]) -> str:
    """Return the first few names, quoted, for a sentence.

    >>> name_some(["a", "b", "c", "d", "e", "f", "g"])
    "'a', 'b', 'c', 'd', 'e' and 2 more"
    """
    named = ", ".join(repr(name) for name in names[:_NAMED_CLASSES])
    return named + (f" and {len(names) - _NAMED_CLASSES} more" if len(names) > _NAMED_CLASSES else "")
