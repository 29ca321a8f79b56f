"""Calibration: whether predictions of confidence c are right in a share c of cases."""

import torch
from torch import Tensor

from proco.losses.batch import checked_labels, require_matrix


class CalibrationBins:
    """Sums from which the expected calibration error follows, over bins of equal width of the confidence.

    The confidence of a prediction is its probability, the largest of the K. Bin b holds confidences in
    (b / bins, (b + 1) / bins]. `sums` (3, bins) are the number of predictions, their confidences and how many were
    right; those of batches and of ranks add up.

    >>> bins = CalibrationBins()
    >>> bins.update(torch.tensor([[0.9, 0.1], [0.9, 0.1]]), torch.tensor([0, 1]))  # sure of both, right in one
    >>> round(bins.ece(), 6)
    0.4
    """

    def __init__(self, num_bins: int = 15, *, device: torch.device | str = "cpu") -> None:
        # float32 sums of many thousand confidences lose digits; mps has nothing better.
        dtype = torch.float32 if torch.device(device).type == "mps" else torch.float64
        self.sums = torch.zeros(3, num_bins, dtype=dtype, device=device)
        self._bounds = torch.linspace(0, 1, num_bins + 1, dtype=dtype, device=device)[1:-1]

    @torch.no_grad()
    def update(self, probabilities: Tensor, labels: Tensor) -> None:
        """Take in a batch: probabilities (N, K), labels (N,) in [0, K). The device is not waited for."""
        require_matrix(probabilities, None, "probabilities")
        labels = checked_labels(labels, len(probabilities), probabilities.shape[1])
        confidence, prediction = probabilities.to(self.sums.dtype).max(dim=1)
        rows = torch.stack([torch.ones_like(confidence), confidence, (prediction == labels).to(confidence.dtype)])
        self.sums.index_add_(1, torch.bucketize(confidence, self._bounds), rows)

    def ece(self) -> float:
        """Return the expected calibration error in [0, 1], sum_b |confidence_b - right_b| / N; NaN without a sample."""
        return expected_calibration_error(self.sums)


def expected_calibration_error(sums: Tensor) -> float:
    """Return the expected calibration error of the sums (3, bins) that `CalibrationBins` holds."""
    counts, confidences, right = sums
    return float((confidences - right).abs().sum() / counts.sum())
