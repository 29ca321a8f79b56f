"""Effective numbers against exact fractions, and their limits."""

from fractions import Fraction

import pytest
import torch

from proco.losses import effective_number_weights
from proco.losses.effective_number import effective_numbers

COUNTS = [500, 40, 5, 1]


def exact_weights(counts: list[int], beta: float) -> list[float]:
    """(1 - beta) / (1 - beta^n), rescaled to sum to the number of classes, in fractions without rounding."""
    base = Fraction(beta)
    weights = [(1 - base) / (1 - base**count) for count in counts]
    return [float(len(counts) * weight / sum(weights)) for weight in weights]


@pytest.mark.parametrize("beta", [1e-20, 0.5, 0.9, 0.9999, 1 - 1e-9, 1 - 2**-53])
def test_weights_are_the_formula_without_rounding(beta: float) -> None:
    torch.testing.assert_close(
        effective_number_weights(COUNTS, beta), torch.tensor(exact_weights(COUNTS, beta)), rtol=2e-6, atol=0
    )


def test_weights_by_hand() -> None:
    # E = 1 and 1 + 1/2; the weights 1 and 2/3 are rescaled to sum to 2.
    torch.testing.assert_close(effective_number_weights([1, 2], 0.5), torch.tensor([1.2, 0.8]))


@pytest.mark.parametrize("beta", [0.0, 0.9, 0.9999, 0.9999999])
def test_they_sum_to_the_number_of_classes_and_rare_classes_weigh_no_less(beta: float) -> None:
    weights = effective_number_weights([10_000_000, *COUNTS], beta)
    assert weights.dtype == torch.float32
    torch.testing.assert_close(weights.sum(), torch.tensor(5.0))
    assert (weights.diff() >= 0).all()


def test_beta_zero_weighs_all_alike() -> None:
    assert torch.equal(effective_number_weights(COUNTS, 0.0), torch.ones(4))


def test_beta_near_one_is_inverse_frequency_for_large_counts_too() -> None:
    counts = torch.tensor([12_000_000.0, 3_000_000.0, 7.0])
    expected = 3 * counts.reciprocal() / counts.reciprocal().sum()
    torch.testing.assert_close(effective_number_weights(counts, 1 - 2**-53), expected, rtol=1e-5, atol=0)


def test_numbers_go_from_one_to_the_counts_and_keep_their_type() -> None:
    counts = torch.tensor(COUNTS, dtype=torch.float64)
    assert torch.equal(effective_numbers(counts, 0.0), torch.ones(4, dtype=torch.float64))
    torch.testing.assert_close(effective_numbers(counts, 1 - 1e-15), counts, rtol=1e-11, atol=0)
    sums = torch.tensor([sum(0.9**power for power in range(count)) for count in COUNTS], dtype=torch.float64)
    torch.testing.assert_close(effective_numbers(counts, 0.9), sums, rtol=1e-13, atol=0)


def test_order_of_the_classes_does_not_matter() -> None:
    order = [2, 0, 3, 1]
    shuffled = effective_number_weights([COUNTS[place] for place in order], 0.99)
    torch.testing.assert_close(shuffled, effective_number_weights(COUNTS, 0.99)[order])


@pytest.mark.parametrize("beta", [-0.1, 1.0, 1.5, float("nan")])
def test_beta_out_of_range_is_refused(beta: float) -> None:
    with pytest.raises(ValueError, match=f"beta must be at least 0 and below 1; got {beta:g}"):
        effective_number_weights(COUNTS, beta)


def test_empty_classes_are_refused() -> None:
    with pytest.raises(ValueError, match="class_counts must be positive: class 1 has 0"):
        effective_number_weights([3, 0], 0.9)
