"""Balanced softmax (Ren et al., NeurIPS 2020): cross-entropy of logits that the log class counts are added to."""

from proco.losses.batch import Reduction
from proco.losses.class_counts import ClassCounts
from proco.losses.logit_adjustment import LogitAdjustedLoss


class BalancedSoftmaxLoss(LogitAdjustedLoss):
    """-log(n_y e^(s_y) / sum_j n_j e^(s_j)), with n the class counts of the training set and s the logits.

    It is logit adjustment with tau = 1: the log counts differ from the log priors by log sum n, a shift of all logits
    that a softmax does not see. Predict with the logits as they are.

    logits: (N, K), labels: (N,) in [0, K); returns a scalar, or (N,) with reduction="none".

    >>> import torch
    >>> criterion = BalancedSoftmaxLoss(class_counts=[90, 10])
    >>> criterion(torch.zeros(1, 2), torch.tensor([1]))  # log(100 / 10)
    tensor(2.3026)
    """

    def __init__(self, class_counts: ClassCounts, *, reduction: Reduction = "mean") -> None:
        super().__init__(class_counts, tau=1.0, reduction=reduction)
