"""Shot groups against the class numbers of the CIFAR-100-LT protocol, and means by hand."""

import math

import pytest
import torch

from proco.data.long_tail import exponential_counts
from proco.evaluation.shot_groups import group_accuracy, group_sizes, shot_groups


@pytest.mark.parametrize(
    ("imbalance", "sizes"), [(100, (35, 35, 30)), (50, (41, 41, 18)), (10, (69, 31, 0))], ids=["100", "50", "10"]
)
def test_groups_of_cifar100_lt_have_the_published_sizes(imbalance: int, sizes: tuple[int, int, int]) -> None:
    groups = shot_groups(exponential_counts(500, 100, imbalance))
    assert tuple(int(groups[name].sum()) for name in ("many", "medium", "few")) == sizes


def test_bounds_belong_to_the_middle_and_every_class_to_one_group() -> None:
    groups = shot_groups([101, 100, 20, 19, 0])
    assert groups["many"].tolist() == [True, False, False, False, False]
    assert groups["medium"].tolist() == [False, True, True, False, False]
    assert groups["few"].tolist() == [False, False, False, True, True]
    other = shot_groups(torch.tensor([10, 9, 5, 4]), many_above=9, few_below=5)
    assert torch.stack(list(other.values())).int().tolist() == [[1, 0, 0, 0], [0, 1, 1, 0], [0, 0, 0, 1]]


def test_accuracy_of_a_group_is_the_mean_of_its_classes() -> None:
    accuracies = torch.tensor([0.9, 0.6, math.nan, 0.1])
    assert group_accuracy(accuracies, torch.tensor([True, True, False, False])) == pytest.approx(0.75)
    assert group_accuracy(accuracies, torch.tensor([False, False, True, True])) == pytest.approx(0.1)
    assert group_accuracy(accuracies, torch.tensor([False, False, True, False])) is None
    assert group_accuracy(accuracies, torch.zeros(4, dtype=torch.bool)) is None


def test_wrong_input_is_explained() -> None:
    with pytest.raises(ValueError, match="few_below must be at most many_above; got 30 and 10"):
        shot_groups([1, 2], many_above=10, few_below=30)
    with pytest.raises(ValueError, match=r"one number per class, shape \(K,\); got shape \(1, 2\)"):
        shot_groups(torch.ones(1, 2))


def test_samples_of_a_group_are_those_of_its_classes() -> None:
    labels = torch.tensor([0, 3, 3, 2, 4, 0, 0])
    sizes = group_sizes([500, 101, 50, 3, 2], labels)
    assert sizes == {"many": 3, "medium": 1, "few": 3}
    assert group_sizes(torch.tensor([5.0, 5.0]), labels[:0]) == {"many": 0, "medium": 0, "few": 0}
