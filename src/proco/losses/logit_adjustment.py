"""Logit adjustment (Menon et al., ICLR 2021; eq. 1 of ProCo's paper): cross-entropy with class priors as margins."""

import math

from torch import Tensor
from torch.nn.functional import cross_entropy

from proco.full_precision import FullPrecisionModule
from proco.losses.batch import Reduction, checked_logits, reduce
from proco.losses.class_counts import ClassCounts, as_class_counts, log_prior
from proco.ranges import require_choice


class LogitAdjustedLoss(FullPrecisionModule):
    """-log softmax(logits + tau log pi)_y, with pi the class frequencies of the training set.

    tau = 1 is balanced softmax, tau = 0 plain cross-entropy. Predict with the logits as they are: the model has learnt
    to do without the prior.

    logits: (N, K), labels: (N,) in [0, K); returns a scalar, or (N,) with reduction="none".

    >>> import torch
    >>> criterion = LogitAdjustedLoss(class_counts=[90, 10])
    >>> criterion(torch.zeros(2, 2), torch.tensor([0, 1]))  # H(uniform labels, prior) = -(log 0.9 + log 0.1) / 2
    tensor(1.2040)
    """

    class_counts: Tensor

    def __init__(self, class_counts: ClassCounts, *, tau: float = 1.0, reduction: Reduction = "mean") -> None:
        super().__init__()
        require_choice(Reduction, reduction=reduction)
        if not math.isfinite(tau):
            raise ValueError(f"tau must be finite; got {tau}.")
        self.register_buffer("class_counts", as_class_counts(class_counts))
        self.tau = tau
        self.reduction: Reduction = reduction

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the loss of a batch."""
        # In float32 at least: the prior of a rare class and a large logit do not fit one half-precision number.
        logits, labels = checked_logits(logits, labels, len(self.class_counts))
        adjusted = logits + self.tau * log_prior(self.class_counts, logits.dtype)
        return reduce(cross_entropy(adjusted, labels, reduction="none"), self.reduction)

    def extra_repr(self) -> str:
        """Return the settings."""
        return f"num_classes={len(self.class_counts)}, tau={self.tau}, reduction={self.reduction!r}"
