"""Label-distribution-aware margins, LDAM (Cao et al., NeurIPS 2019): the rarer a class, the wider its margin."""

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from proco.full_precision import FullPrecisionModule
from proco.losses.batch import Reduction, WeighsSamples, checked_logits, is_label, weighted_reduce
from proco.losses.class_counts import ClassCounts, as_class_counts
from proco.ranges import require_choice, require_not_negative, require_positive


class LdamLoss(FullPrecisionModule, WeighsSamples):
    """-w_y log softmax(s - scale m_y e_y)_y: the label's logit has to win by a margin of its class.

    m_j = max_margin (n_min / n_j)^(1/4): the rarest class has max_margin. e_y is 1 at the label and 0 elsewhere. The
    logits s are scale times cosines, as a `CosineClassifier` of the same scale gives them; margins are of cosines.

    The weights w are a buffer, `class_weights`, of ones. Deferred re-weighting writes others into it when training is
    almost over. The mean is divided by the sum of the batch's weights (`weighted_reduce`).

    logits: (N, K), labels: (N,) in [0, K); returns a scalar, or (N,) weighted losses with reduction="none".

    >>> criterion = LdamLoss(class_counts=[1600, 100], max_margin=0.5, scale=2.0)
    >>> criterion(torch.zeros(1, 2), torch.tensor([1]))  # log(1 + e^(2 * 0.5))
    tensor(1.3133)
    """

    class_counts: Tensor
    class_weights: Tensor

    def __init__(
        self,
        class_counts: ClassCounts,
        *,
        max_margin: float = 0.5,
        scale: float = 30.0,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__()
        require_choice(Reduction, reduction=reduction)
        require_not_negative(max_margin=max_margin)
        require_positive(scale=scale)
        self.register_buffer("class_counts", as_class_counts(class_counts))
        self.register_buffer("class_weights", torch.ones_like(self.class_counts))
        self.max_margin, self.scale = max_margin, scale
        self.reduction: Reduction = reduction

    def margins(self) -> Tensor:
        """Return the margin of each class, (K,), in units of a cosine."""
        return self.max_margin * (self.class_counts.min() / self.class_counts) ** 0.25

    def sample_weights(self, labels: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
        """Return what samples of these labels weigh, (N,)."""
        return self.class_weights.to(dtype)[labels]

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the loss of a batch."""
        num_classes = len(self.class_counts)
        logits, labels = checked_logits(logits, labels, num_classes)
        behind = logits - self.scale * self.margins().to(logits.dtype) * is_label(labels, num_classes)
        losses = cross_entropy(behind, labels, reduction="none")
        return weighted_reduce(losses, self.sample_weights(labels, logits.dtype), self.reduction)

    def extra_repr(self) -> str:
        """Return the settings."""
        sizes = f"num_classes={len(self.class_counts)}, max_margin={self.max_margin}, scale={self.scale}"
        return f"{sizes}, reduction={self.reduction!r}"
