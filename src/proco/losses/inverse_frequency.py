"""Cross-entropy weighted by a power of the inverse class frequencies (of DisAlign: Zhang et al., CVPR 2021)."""

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from proco.full_precision import FullPrecisionModule
from proco.losses.batch import Reduction, WeighsSamples, checked_logits, weighted_reduce
from proco.losses.class_counts import ClassCounts, as_class_counts, log_prior
from proco.ranges import require_choice, require_not_negative


class InverseFrequencyLoss(FullPrecisionModule, WeighsSamples):
    """-w_y log softmax(logits)_y with weights w_j proportional to (1 / pi_j)^power that sum to the number of classes.

    power = 0 is cross-entropy. The mean is divided by the sum of the batch's weights (`weighted_reduce`).

    logits: (N, K), labels: (N,) in [0, K); returns a scalar, or (N,) weighted losses with reduction="none".

    >>> InverseFrequencyLoss([90, 10], power=1.0).weights()
    tensor([0.2000, 1.8000])
    """

    class_counts: Tensor

    def __init__(self, class_counts: ClassCounts, *, power: float = 1.0, reduction: Reduction = "mean") -> None:
        super().__init__()
        require_choice(Reduction, reduction=reduction)
        require_not_negative(power=power)
        self.register_buffer("class_counts", as_class_counts(class_counts))
        self.power = power
        self.reduction: Reduction = reduction

    def weights(self, dtype: torch.dtype = torch.float32) -> Tensor:
        """Return the weight of each class, (K,)."""
        # A softmax of logarithms, so that no power overflows.
        return len(self.class_counts) * (-self.power * log_prior(self.class_counts, dtype)).softmax(dim=0)

    def sample_weights(self, labels: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
        """Return what samples of these labels weigh, (N,)."""
        return self.weights(dtype)[labels]

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the loss of a batch."""
        logits, labels = checked_logits(logits, labels, len(self.class_counts))
        losses = cross_entropy(logits, labels, reduction="none")
        return weighted_reduce(losses, self.sample_weights(labels, logits.dtype), self.reduction)

    def extra_repr(self) -> str:
        """Return the settings."""
        return f"num_classes={len(self.class_counts)}, power={self.power}, reduction={self.reduction!r}"
