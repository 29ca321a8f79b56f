"""Gaussian clouded logits (Li M. et al., CVPR 2022): cross-entropy of cosines that noise lowers, the rare most."""

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from proco.full_precision import FullPrecisionModule
from proco.losses.batch import Reduction, checked_logits, is_label, reduce
from proco.losses.class_counts import ClassCounts, as_class_counts
from proco.ranges import require_choice, require_not_negative, require_positive
from proco.roles import DrawsOnly


class GaussianCloudedLoss(FullPrecisionModule, DrawsOnly):
    """-(1 - q)^gamma log q, q = softmax(scale o)_y of clouded cosines o_j = cos_j - noise a_j |e_j| - margin [j = y].

    a_j = (log n_max - log n_j) / (log n_max - log n_min) is 0 for the largest class and 1 for the rarest; where all
    are alike it is 0. e_j ~ N(0, deviation^2), clamped to [-1, 1], is drawn from torch's generator for every sample and
    class at every call, in training mode alone: in evaluation mode there is no cloud. It lowers the cosines of all
    classes, not the label's only, and never raises one: in prediction, without it, rare classes stand higher.

    The factor (1 - q)^gamma, of the focal loss, is a weight: no gradient flows through it, as in the authors' code.

    logits: (N, K), logit_scale times cosines; labels: (N,) in [0, K); returns a scalar, or (N,) with reduction="none".

    >>> criterion = GaussianCloudedLoss([90, 10], margin=0.1).eval()
    >>> criterion(30 * torch.tensor([[0.5, 0.3]]), torch.tensor([0]))  # log(1 + e^(30 (0.3 - 0.4)))
    tensor(0.0486)
    """

    class_counts: Tensor

    def __init__(
        self,
        class_counts: ClassCounts,
        *,
        scale: float = 30.0,
        margin: float = 0.0,
        gamma: float = 0.0,
        noise: float = 0.5,
        deviation: float = 1 / 3,
        logit_scale: float = 30.0,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__()
        require_choice(Reduction, reduction=reduction)
        require_positive(scale=scale, logit_scale=logit_scale)
        require_not_negative(margin=margin, gamma=gamma, noise=noise, deviation=deviation)
        self.register_buffer("class_counts", as_class_counts(class_counts))
        self.scale, self.logit_scale = scale, logit_scale
        self.margin, self.gamma, self.noise, self.deviation = margin, gamma, noise, deviation
        self.reduction: Reduction = reduction

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the loss of a batch."""
        num_classes = len(self.class_counts)
        logits, labels = checked_logits(logits, labels, num_classes)
        lowered = logits * (self.scale / self.logit_scale)
        if self.training and self.noise:
            lengths = (self.deviation * torch.randn_like(logits)).abs().clamp_max(1)
            lowered = lowered - self.scale * self.noise * lengths * self.rarities(logits.dtype)
        if self.margin:
            lowered = lowered - self.scale * self.margin * is_label(labels, num_classes)
        losses = cross_entropy(lowered, labels, reduction="none")
        if self.gamma:
            losses = (-torch.expm1(-losses.detach())).clamp_min(0) ** self.gamma * losses
        return reduce(losses, self.reduction)

    def rarities(self, dtype: torch.dtype) -> Tensor:
        """Return a (K,): how large the cloud of each class is, from 0 to 1."""
        log_counts = self.class_counts.to(dtype).log()
        distances = log_counts.max() - log_counts
        return distances / distances.max().clamp_min(torch.finfo(dtype).tiny)  # 0 / 0 where all counts are the same

    def extra_repr(self) -> str:
        """Return the settings."""
        return (
            f"num_classes={len(self.class_counts)}, scale={self.scale}, margin={self.margin}, gamma={self.gamma}, "
            f"noise={self.noise}, deviation={self.deviation:.3g}, logit_scale={self.logit_scale}, "
            f"reduction={self.reduction!r}"
        )
