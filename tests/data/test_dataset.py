"""Data sets: what they refuse, and what the two ways of making one from another keep and say."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from proco.data.array_images import ArrayImages
from proco.data.dataset import SPLIT_WORDS, Dataset, Split, hold_out, keep_subset, validate_on_left_out
from proco.data.long_tail import IndexList, keep_counts
from proco.errors import DataError


def split_of(labels: Tensor, channels: int = 1) -> Split:
    """Images of one pixel that hold their own position, so that it can be seen which were taken."""
    pixels = torch.arange(len(labels), dtype=torch.uint8)[:, None, None, None].repeat(1, channels, 1, 1)
    return Split(ArrayImages(pixels), labels)


def positions_of(split: Split) -> list[int]:
    assert isinstance(split.images, ArrayImages)
    return split.images.pixels[:, 0, 0, 0].tolist()


def dataset_of(counts: list[int], **splits: Split) -> Dataset:
    labels = torch.arange(len(counts)).repeat_interleave(torch.tensor(counts))
    shuffled = labels[torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))]
    return Dataset("toys", tuple("abcdefgh"[: len(counts)]), {"train": split_of(shuffled), **splits})


def test_counts_and_classes() -> None:
    dataset = dataset_of([5, 1, 3])
    assert dataset.num_classes == 3
    assert dataset.class_counts.tolist() == [5, 1, 3]
    assert len(dataset.splits["train"]) == 9


def test_split_needs_a_label_per_image() -> None:
    images = ArrayImages(torch.zeros(3, 1, 2, 2, dtype=torch.uint8))
    with pytest.raises(DataError, match="one label per image; got 3 and 2"):
        Split(images, torch.zeros(2, dtype=torch.int64))
    with pytest.raises(DataError, match=r"int64 of shape \(N,\); got torch.float32 of shape \(3,\)"):
        Split(images, torch.zeros(3))


def test_missing_classes_are_named_with_what_was_done_before() -> None:
    labels = torch.tensor([0, 0, 3])
    with pytest.raises(DataError, match=r"'b', 'c' \(2 of 4 classes\) have none.* Note: two were lost.") as error:
        Dataset("toys", ("a", "b", "c", "d"), {"train": split_of(labels)}, ("two were lost",)).require_trainable()
    assert "\n" not in str(error.value)


def test_impossible_data_sets_are_explained() -> None:
    train = split_of(torch.tensor([0, 1]))
    with pytest.raises(DataError, match="a name of its own; got 'a' twice or more"):
        Dataset("toys", ("a", "a", "b"), {"train": train})
    with pytest.raises(DataError, match="splits are train, val and test; got none"):
        Dataset("toys", ("a", "b"), {})
    with pytest.raises(DataError, match="no training images; its splits: val"):
        Dataset("toys", ("a", "b"), {"val": train}).require_trainable()
    with pytest.raises(DataError, match="got train, holdout"):
        Dataset("toys", ("a", "b"), {"train": train, "holdout": train})
    with pytest.raises(DataError, match="at least 2 classes"):
        Dataset("toys", ("a",), {"train": split_of(torch.tensor([0]))}).require_trainable()
    with pytest.raises(DataError, match=r"lie in \[0, 1\]; got 2 in test"):
        Dataset("toys", ("a", "b"), {"train": train, "test": split_of(torch.tensor([2]))})
    with pytest.raises(DataError, match="got -1 in train"):
        Dataset("toys", ("a", "b"), {"train": split_of(torch.tensor([0, 1, -1]))})
    with pytest.raises(DataError, match="the test split is empty"):
        Dataset("toys", ("a", "b"), {"train": train, "test": split_of(torch.empty(0, dtype=torch.int64))})
    with pytest.raises(DataError, match=r"same channels; got \[1, 3\]"):
        Dataset("toys", ("a", "b"), {"train": train, "test": split_of(torch.tensor([0, 1]), channels=3)})


def test_hold_out_takes_exact_shares_of_each_class() -> None:
    dataset = dataset_of([100, 25, 14, 5, 4, 1])
    made = hold_out(dataset, 0.1, seed=0)
    train, val = made.splits["train"], made.splits["val"]
    assert val.labels.bincount(minlength=6).tolist() == [10, 3, 1, 1, 0, 0]  # 2.5 and 0.5 are rounded up
    assert train.labels.bincount().tolist() == [90, 22, 13, 4, 4, 1]
    assert sorted(positions_of(train) + positions_of(val)) == list(range(149))
    labels = dataset.splits["train"].labels
    for split in (train, val):
        assert torch.equal(split.labels, labels[positions_of(split)])
    assert made.notes == (
        "no validation split: 10 % of each class (15 images) held out from training; "
        "'e', 'f' (2 of 6 classes) have too few images for it and are not evaluated, "
        "with data.validation=0.13 all that have two or more are",
    )
    assert hold_out(dataset, 0.13).splits["val"].labels.bincount(minlength=6).tolist()[4:] == [1, 0]


def test_hold_out_leaves_an_image_of_each_class() -> None:
    made = hold_out(dataset_of([9, 2, 1]), 0.9)
    assert made.class_counts.tolist() == [1, 1, 1]


def test_hold_out_of_nothing_is_answered_with_a_share_that_takes_an_image_of_the_largest_class() -> None:
    with pytest.raises(DataError, match=r"the largest class has 10.*validation=0\.05"):
        hold_out(dataset_of([10, 2]), 0.01)


def test_hold_out_depends_on_its_seed_alone() -> None:
    dataset = dataset_of([50, 20, 10])
    torch.manual_seed(1)
    first = positions_of(hold_out(dataset, 0.2, seed=3).splits["val"])
    torch.manual_seed(2)
    assert first == positions_of(hold_out(dataset, 0.2, seed=3).splits["val"])
    assert first != positions_of(hold_out(dataset, 0.2, seed=4).splits["val"])


def test_hold_out_keeps_the_other_splits_and_notes() -> None:
    dataset = replace(dataset_of([10, 10], test=split_of(torch.tensor([0, 1]))), notes=("first",))
    made = hold_out(dataset, 0.25)
    assert made.splits["test"] is dataset.splits["test"]
    assert made.notes[0] == "first"
    assert len(made.notes) == 2


def test_impossible_hold_outs_are_explained() -> None:
    with pytest.raises(DataError, match="has a validation split already"):
        hold_out(dataset_of([4, 4], val=split_of(torch.tensor([0]))), 0.5)
    with pytest.raises(DataError, match="between 0 and 1; got 10"):
        hold_out(dataset_of([4, 4]), 10)
    with pytest.raises(DataError, match=r"1% of each class is not one image: .* has 4.*validation=0\.13"):
        hold_out(dataset_of([4, 4]), 0.01)
    assert len(hold_out(dataset_of([4, 4]), 0.13).splits["val"]) == 2
    with pytest.raises(DataError, match=r"the largest class has 1\. Add images, or a test split"):
        hold_out(dataset_of([1, 1]), 0.9)


def test_subset_is_that_of_the_index_list_and_is_noted() -> None:
    dataset = dataset_of([20, 20, 20], test=split_of(torch.tensor([0, 1, 2])))
    index_list = keep_counts(dataset.splits["train"].labels.numpy(), (20, 6, 2), "toys, steep")
    kept = keep_subset(dataset, index_list)
    assert positions_of(kept.splits["train"]) == index_list.indices.tolist()
    assert kept.class_counts.tolist() == [20, 6, 2]
    assert kept.splits["test"] is dataset.splits["test"]
    assert kept.notes == (f"training images are the subset toys, steep: 28 images, sha256 {index_list.hash}",)


def test_subset_of_other_data_is_refused() -> None:
    dataset = dataset_of([4, 4])
    with pytest.raises(DataError, match="reaches to image 8, but toys has 8"):
        keep_subset(dataset, IndexList("far", np.array([0, 8]), (1, 1)))
    labels = dataset.splits["train"].labels.numpy()
    of_others = keep_counts(1 - labels, (4, 1), "others")
    with pytest.raises(DataError, match="the subset others does not have the class counts"):
        keep_subset(dataset, of_others)


def test_hash_sees_names_labels_and_images() -> None:
    def hash_of(pixels: list[int], labels: list[int], names: str = "ab") -> str:
        images = ArrayImages(torch.tensor(pixels, dtype=torch.uint8)[:, None, None, None])
        return Dataset("toys", tuple(names), {"train": Split(images, torch.tensor(labels))}).hash

    assert hash_of([1, 2, 3], [0, 1, 1]) == hash_of([1, 2, 3], [0, 1, 1])
    others = [hash_of([1, 3, 2], [0, 1, 1]), hash_of([1, 2, 3], [1, 0, 1]), hash_of([1, 2, 3], [0, 1, 1], "ac")]
    assert len({hash_of([1, 2, 3], [0, 1, 1]), *others}) == 4


def test_hash_sees_which_split_is_which() -> None:
    one, other = dataset_of([2, 2]).splits["train"], dataset_of([3, 1]).splits["train"]
    contents: list[dict[str, Split]] = [
        {"train": one},
        {"test": one},
        {"train": one, "test": other},
        {"train": other, "test": one},
        {"train": one, "val": other},
    ]
    hashes = [Dataset("toys", ("a", "b"), splits).hash for splits in contents]
    assert len(set(hashes)) == len(hashes)
    assert Dataset("toys", ("a", "b"), {"test": other, "train": one}).hash == hashes[2]  # whatever their order


def test_hash_sees_where_a_name_ends() -> None:
    splits = dataset_of([2, 2]).splits
    assert Dataset("toys", ("a", "bc"), splits).hash != Dataset("toys", ("ab", "c"), splits).hash


def test_positions_before_the_first_image_are_of_other_data() -> None:
    with pytest.raises(DataError, match="made for other data"):
        keep_subset(dataset_of([1, 1]), IndexList("x", np.array([0, -1]), (1, 1)))


def test_hold_out_passes_over_classes_without_images() -> None:
    made = hold_out(Dataset("toys", ("a", "b"), {"train": split_of(torch.tensor([0] * 10))}), 0.1)
    assert (len(made.splits["train"]), len(made.splits["val"])) == (9, 1)
    assert "; 'b' (1 of 2 classes) have too few images for it and are not evaluated; all held-out" in made.notes[-1]


def test_hold_out_says_where_an_accuracy_is_of_one_class_alone() -> None:
    note = hold_out(dataset_of([60, 4, 1]), 0.1).notes[-1]
    assert note.endswith("; all held-out images are of 'a', and accuracy on one class says nothing")
    assert "data.validation=0.13 " in note
    assert "says nothing" not in hold_out(dataset_of([60, 10, 1]), 0.1).notes[-1]
    assert "data.validation" not in hold_out(dataset_of([60, 10, 1]), 0.1).notes[-1]  # nothing helps one image
    assert "evaluated" not in hold_out(dataset_of([60, 10, 5]), 0.1).notes[-1]


def test_held_out_images_are_in_the_order_of_the_data() -> None:
    held = positions_of(hold_out(dataset_of([50, 20, 10]), 0.2).splits["val"])
    assert held == sorted(held)


def test_left_out_images_are_in_the_order_of_the_data_and_there_is_no_test() -> None:
    dataset = dataset_of([30, 30], test=split_of(torch.tensor([0, 1])))
    kept = keep_counts(dataset.splits["train"].labels.numpy(), (20, 10), "kept")
    made = validate_on_left_out(dataset, kept, 8)
    chosen = positions_of(made.splits["val"])
    assert chosen == sorted(chosen)
    assert set(made.splits) == {"train", "val"}
    assert "validation split" not in made.notes[-1]
    validated = replace(dataset, splits={**dataset.splits, "val": dataset.splits["test"]})
    assert "its own validation split is not used" in validate_on_left_out(validated, kept, 8).notes[-1]


def test_results_are_about_the_test_where_there_is_one() -> None:
    part = dataset_of([2, 2]).splits["train"]
    assert Dataset("toys", ("a", "b"), {"train": part, "val": part, "test": part}).test_split == "test"
    assert Dataset("toys", ("a", "b"), {"train": part, "val": part}).test_split == "val"


def test_words_for_splits() -> None:
    by_split = {split: {word for word, meaning in SPLIT_WORDS.items() if meaning == split} for split in SPLIT_WORDS}
    assert by_split["train"] == {"train", "training"}
    assert by_split["val"] == {"val", "valid", "validation"}
    assert by_split["test"] == {"test", "testing"}
