"""Expected calibration error against a plain loop over bins and samples."""

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import Tensor

from proco.evaluation.calibration import CalibrationBins


def slow_ece(probabilities: Tensor, labels: Tensor, num_bins: int) -> float:
    """Guo et al. (ICML 2017), eq. 3, sample by sample."""
    error = 0.0
    edges = np.linspace(0, 1, num_bins + 1)
    for low, high in pairwise(edges):
        confidences, right = [], []
        for row, label in zip(probabilities.double().numpy(), labels.tolist(), strict=True):
            if low < row.max() <= high:
                confidences.append(row.max())
                right.append(row.argmax() == label)
        if confidences:
            error += len(confidences) / len(labels) * abs(np.mean(right) - np.mean(confidences))
    return float(error)


def predictions(size: int = 400) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    probabilities = (3 * torch.randn(size, 6, generator=generator)).softmax(dim=1)
    return probabilities, torch.randint(6, (size,), generator=generator)


@pytest.mark.parametrize("num_bins", [15, 1, 7])
def test_error_is_that_of_a_loop(num_bins: int, device: torch.device) -> None:
    probabilities, labels = predictions()
    bins = CalibrationBins(num_bins, device=device)
    bins.update(probabilities.to(device), labels.to(device))
    assert bins.ece() == pytest.approx(slow_ece(probabilities, labels, num_bins), rel=1e-12)
    assert bins.sums[0].sum() == 400
    assert bins.ece() > 0.1


def test_bounds_of_bins_belong_to_the_bin_below() -> None:
    probabilities = torch.tensor([[0.5, 0.5], [0.75, 0.25], [1.0, 0.0], [0.6, 0.4]])
    bins = CalibrationBins(4)
    bins.update(probabilities, torch.zeros(4, dtype=torch.int64))
    assert bins.sums[0].tolist() == [0, 1, 2, 1]


def test_batches_add_up() -> None:
    probabilities, labels = predictions()
    whole, parts = CalibrationBins(), CalibrationBins()
    whole.update(probabilities, labels)
    for part, part_labels in zip(probabilities.split(90), labels.split(90), strict=True):
        parts.update(part, part_labels)
    torch.testing.assert_close(parts.sums, whole.sums)


def test_predictions_right_as_often_as_they_say_have_no_error() -> None:
    bins = CalibrationBins()
    bins.update(torch.tensor([[0.75, 0.25]] * 4), torch.tensor([0, 1, 0, 0]))
    assert bins.ece() == pytest.approx(0, abs=1e-15)


def test_nothing_has_no_error() -> None:
    assert math.isnan(CalibrationBins().ece())


def test_wrong_input_is_explained() -> None:
    with pytest.raises(ValueError, match=r"probabilities must have shape \(N, p\); got \(3,\)"):
        CalibrationBins().update(torch.zeros(3), torch.zeros(3, dtype=torch.int64))
    with pytest.raises(ValueError, match=r"labels must lie in \[0, 1\]; got 2"):
        CalibrationBins().update(torch.zeros(1, 2), torch.tensor([2]))


def test_there_are_fifteen_bins_as_usual() -> None:
    probabilities, labels = predictions()
    bins = CalibrationBins()
    bins.update(probabilities, labels)
    assert bins.ece() == pytest.approx(slow_ece(probabilities, labels, 15), rel=1e-12)


def test_bins_are_fifteen_as_in_the_field() -> None:
    assert CalibrationBins().sums.shape == (3, 15)
