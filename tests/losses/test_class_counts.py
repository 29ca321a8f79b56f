"""Class counts: what is taken, and what is refused with which words."""

import numpy as np
import pytest
import torch

from proco.losses import class_counts_from_labels
from proco.losses.class_counts import as_class_counts, log_prior


@pytest.mark.parametrize("given", [[3, 1, 2], (3, 1, 2), np.array([3, 1, 2]), torch.tensor([3, 1, 2])])
def test_lists_arrays_and_tensors_are_the_same(given: object) -> None:
    counts = as_class_counts(given)  # type: ignore[arg-type]
    assert counts.tolist() == [3, 1, 2]
    assert counts.dtype == torch.float32


@pytest.mark.parametrize("kind", [torch.int64, torch.float32])
def test_the_argument_is_copied(kind: torch.dtype) -> None:
    given = torch.tensor([3, 1], dtype=kind)
    counts = as_class_counts(given)
    given[0] = 100
    assert counts.tolist() == [3, 1]


def test_prior_is_the_share_of_each_class() -> None:
    torch.testing.assert_close(log_prior(torch.tensor([6, 3, 1]), torch.float64).exp().tolist(), [0.6, 0.3, 0.1])
    frequencies = as_class_counts([0.6, 0.3, 0.1])
    torch.testing.assert_close(log_prior(frequencies, torch.float32).exp(), torch.tensor([0.6, 0.3, 0.1]))


@pytest.mark.parametrize("labels", [[0, 2, 2, 1, 2], np.array([0, 2, 2, 1, 2]), torch.tensor([0, 2, 2, 1, 2]).int()])
def test_labels_are_counted(labels: object) -> None:
    assert class_counts_from_labels(labels).tolist() == [1, 1, 3]  # type: ignore[arg-type]
    assert class_counts_from_labels(labels, num_classes=5).tolist() == [1, 1, 3, 0, 0]  # type: ignore[arg-type]


def test_wrong_counts_are_explained() -> None:
    with pytest.raises(ValueError, match=r"class 1 has 0 \(2 such of 4\).*no prior"):
        as_class_counts([5, 0, 3, 0])
    with pytest.raises(ValueError, match="class 0 has -1"):
        as_class_counts([-1, 2])
    with pytest.raises(ValueError, match="class 1 has nan"):
        as_class_counts([1.0, float("nan")])
    with pytest.raises(ValueError, match="class 1 has inf"):
        as_class_counts([1.0, float("inf")])
    with pytest.raises(ValueError, match=r"got shape \(2, 2\).*class_counts_from_labels"):
        as_class_counts(torch.ones(2, 2))
    with pytest.raises(TypeError, match=r"one number per class; got dict"):
        as_class_counts({0: 3})  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"got shape \(0,\)"):
        as_class_counts([])
    with pytest.raises(ValueError, match=r"must be numbers; got torch\.bool"):
        as_class_counts(torch.tensor([True, False]))


def test_wrong_labels_are_explained() -> None:
    with pytest.raises(ValueError, match=r"lie in \[0, 2\]; got 3"):
        class_counts_from_labels([0, 3], num_classes=3)
    with pytest.raises(ValueError, match="num_classes must be at least 1; got 0"):
        class_counts_from_labels([0, 1], num_classes=0)
    with pytest.raises(ValueError, match="must not be negative; got -1"):
        class_counts_from_labels([0, -1])
    with pytest.raises(ValueError, match=r"whole numbers; got torch\.float32"):
        class_counts_from_labels(torch.tensor([0.0, 1.0]))
    with pytest.raises(TypeError, match="labels must be whole numbers from 0 on; got list"):
        class_counts_from_labels(["cat", "dog"])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="labels are empty"):
        class_counts_from_labels([])
    with pytest.raises(ValueError, match="empty"):
        class_counts_from_labels(torch.zeros(0, dtype=torch.int64))
