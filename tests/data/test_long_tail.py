"""Long-tailed subsets: the published counts, and the images that the field's algorithm keeps."""

import hashlib
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from proco.data.long_tail import IndexList, exponential_counts, keep_counts, pareto_counts, step_counts
from proco.errors import DataError

CIFAR100_LABELS = Path(__file__).parents[3] / "shared" / "data" / "cifar100" / "labels.npz"


def test_cifar10_counts_are_the_published_ones() -> None:
    assert exponential_counts(5000, 10, 100) == (5000, 2997, 1796, 1077, 645, 387, 232, 139, 83, 50)
    assert sum(exponential_counts(5000, 10, 50)) == 13996
    assert sum(exponential_counts(5000, 10, 10)) == 20431


@pytest.mark.parametrize(
    ("imbalance", "total", "smallest", "groups"),
    [(100, 10847, 5, (35, 35, 30)), (50, 12608, 10, (41, 41, 18)), (10, 19573, 50, (69, 31, 0))],
)
def test_cifar100_counts_are_the_published_ones(
    imbalance: float, total: int, smallest: int, groups: tuple[int, int, int]
) -> None:
    counts = np.array(exponential_counts(500, 100, imbalance))
    assert counts.sum() == total
    assert counts.min() == smallest
    assert ((counts > 100).sum(), ((counts >= 20) & (counts <= 100)).sum(), (counts < 20).sum()) == groups


def test_pareto_profile_resembles_imagenet_lt() -> None:
    counts = pareto_counts(1280, 1000, 256)
    assert (counts[0], counts[-1]) == (1280, 5)
    assert abs(sum(counts) - 115_846) < 200
    assert list(counts) == sorted(counts, reverse=True)


def test_one_class_and_no_imbalance() -> None:
    for size in range(1, 1001):  # 49 (1/49) is less than 1 in floating point
        assert exponential_counts(size, 4, size)[-1] == step_counts(size, 4, size)[-1] == 1
    for profile in (exponential_counts, step_counts, pareto_counts):
        assert profile(7, 3, 1) == (7, 7, 7)
        assert len(profile(7, 1, 7)) == 1


def field_algorithm(labels: np.ndarray, counts: tuple[int, ...]) -> list[int]:
    """The published way, with NumPy's global generator seeded by 0 and classes in the order of their labels."""
    state = np.random.get_state()
    np.random.seed(0)
    kept: list[int] = []
    for label, count in zip(np.unique(labels), counts, strict=True):
        indices = np.where(labels == label)[0]
        np.random.shuffle(indices)
        kept.extend(indices[:count])
    np.random.set_state(state)
    return kept


def test_kept_images_are_those_of_the_field() -> None:
    labels = np.random.default_rng(1).permutation(np.repeat(np.arange(10), 60))
    counts = exponential_counts(60, 10, 20)
    subset = keep_counts(labels, counts, "generated")
    assert subset.indices.tolist() == field_algorithm(labels, counts)
    assert np.bincount(labels[subset.indices]).tolist() == list(counts)


@pytest.mark.skipif(not CIFAR100_LABELS.exists(), reason="the CIFAR-100 labels are not on this machine")
@pytest.mark.parametrize("imbalance", [100, 50, 10])
def test_kept_images_of_cifar100_are_those_of_the_field(imbalance: float) -> None:
    labels = np.load(CIFAR100_LABELS)["train_labels"]
    counts = exponential_counts(500, 100, imbalance)
    assert keep_counts(labels, counts, "cifar100").indices.tolist() == field_algorithm(labels, counts)


def test_hash_names_the_subset_and_nothing_else() -> None:
    labels = np.repeat(np.arange(4), 20)
    subset = keep_counts(labels, (20, 10, 5, 2), "a")
    assert subset.hash == keep_counts(labels, (20, 10, 5, 2), "b").hash
    assert subset.hash != keep_counts(labels, (20, 10, 5, 2), "a", seed=1).hash
    assert len(subset.hash) == 64


def test_global_generator_is_left_alone() -> None:
    np.random.seed(5)
    expected = np.random.RandomState(5).rand()
    keep_counts(np.repeat(np.arange(3), 5), (5, 2, 1), "a")
    assert np.random.rand() == expected


def test_impossible_subsets_are_explained() -> None:
    with pytest.raises(DataError, match="class 1 has 5 samples, but 6 are to be kept"):
        keep_counts(np.repeat(np.arange(2), 5), (5, 6), "a")
    with pytest.raises(DataError, match="imbalance 100 would leave classes without a sample: the largest has 50"):
        exponential_counts(50, 10, 100)
    with pytest.raises(DataError, match="got 10, 0 and 5"):
        step_counts(10, 0, 5)


def test_of_an_odd_number_of_classes_fewer_are_large() -> None:
    assert step_counts(500, 5, 10) == (500, 500, 50, 50, 50)


@pytest.mark.parametrize("imbalance", [0.5, 0.0, -1.0, math.nan])
@pytest.mark.parametrize("profile", [exponential_counts, step_counts, pareto_counts])
def test_imbalance_is_at_least_1(profile: Callable[..., tuple[int, ...]], imbalance: float) -> None:
    with pytest.raises(DataError, match="an imbalance of at least 1"):
        profile(10, 3, imbalance)


def test_hash_is_of_the_indices_in_their_order() -> None:
    one, other = (IndexList("a", np.array(indices), (3,)) for indices in ([0, 1, 2], [2, 1, 0]))
    assert one.hash != other.hash
    assert one.hash == hashlib.sha256(b"".join(bytes([index]) + bytes(7) for index in range(3))).hexdigest()
