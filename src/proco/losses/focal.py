"""Focal loss (Lin et al., ICCV 2017) over the softmax: images that are classified well count less."""

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from proco.losses.batch import Reduction, checked_logits, reduce
from proco.ranges import require_choice, require_not_negative


class FocalLoss(nn.Module):
    """-(1 - q)^gamma log q with q = softmax(logits)_y, the probability of the label.

    gamma = 0 is cross-entropy. 1 is what LDAM's code has for long-tailed CIFAR; 2 is usual in detection.

    logits: (N, K), labels: (N,) in [0, K); returns a scalar, or (N,) with reduction="none".

    >>> FocalLoss()(torch.zeros(1, 2), torch.tensor([0]))  # 0.5 log 2
    tensor(0.3466)
    """

    def __init__(self, gamma: float = 1.0, *, reduction: Reduction = "mean") -> None:
        super().__init__()
        require_not_negative(gamma=gamma)
        require_choice(Reduction, reduction=reduction)
        self.gamma = gamma
        self.reduction: Reduction = reduction

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the loss of a batch."""
        logits, labels = checked_logits(logits, labels)
        surprise = cross_entropy(logits, labels, reduction="none")
        # 1 - q without cancellation. Where it is 0, a root of it (gamma < 1) would have an infinite slope.
        missing = -torch.expm1(-surprise)
        missing = missing.clamp_min(torch.finfo(logits.dtype).tiny)
        return reduce(missing**self.gamma * surprise, self.reduction)

    def extra_repr(self) -> str:
        """Return the settings."""
        return f"gamma={self.gamma}, reduction={self.reduction!r}"
