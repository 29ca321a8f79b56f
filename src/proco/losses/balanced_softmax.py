"""Balanced softmax (Ren et al., NeurIPS 2020): cross-entropy of logits that the class counts are added to."""

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from proco.full_precision import FullPrecisionModule
from proco.losses.batch import Reduction, checked_labels, reduce, require_matrix, require_reduction
from proco.losses.class_counts import ClassCounts, as_class_counts


class BalancedSoftmaxLoss(FullPrecisionModule):
    """-log(n_y e^(s_y) / sum_j n_j e^(s_j)), with n the class counts of the training set and s the logits.

    It is `LogitAdjustedLoss` with tau = 1: the log counts differ from the log priors by log sum n, a shift of all
    logits that a softmax does not see. Predict with the logits as they are.

    logits: (N, K), labels: (N,) in [0, K); returns a scalar, or (N,) with reduction="none".

    >>> criterion = BalancedSoftmaxLoss(class_counts=[90, 10])
    >>> criterion(torch.zeros(1, 2), torch.tensor([1]))  # log(100 / 10)
    tensor(2.3026)
    """

    class_counts: Tensor

    def __init__(self, class_counts: ClassCounts, *, reduction: Reduction = "mean") -> None:
        super().__init__()
        require_reduction(reduction)
        self.register_buffer("class_counts", as_class_counts(class_counts))
        self.reduction: Reduction = reduction

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the loss of a batch."""
        num_classes = len(self.class_counts)
        require_matrix(logits, num_classes, "logits")
        labels = checked_labels(labels, len(logits), num_classes)
        dtype = torch.promote_types(logits.dtype, torch.float32)
        balanced = logits.to(dtype) + self.class_counts.to(dtype).log()
        return reduce(cross_entropy(balanced, labels.long(), reduction="none"), self.reduction)

    def extra_repr(self) -> str:
        """Return the settings."""
        return f"num_classes={len(self.class_counts)}, reduction={self.reduction!r}"
