"""Contrast of embeddings with one score for each class, of what stands for it: its class complement.

That is the word of ProCo's paper (Du et al., T-PAMI 2024) for a vector or a distribution that stands for a class in the
contrast, so that every batch has every class. Its own is a von Mises-Fisher distribution (`ProCoLoss`); the others that
it compares with, a file each, have the loss that stands here.
"""

from abc import ABC, abstractmethod

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from proco.full_precision import FullPrecisionModule
from proco.losses.batch import Reduction, checked_labels, reduce, require_matrix
from proco.losses.class_counts import ClassCounts, as_class_counts, log_prior
from proco.ranges import require_choice, require_positive


class ClassComplementLoss(FullPrecisionModule, ABC):
    """-log softmax(score + log pi)_y, with score_ij how near class j is to the unit embedding z_i.

    In training mode each call first takes the batch into what is known of the classes, then scores it. embeddings:
    (N, p), labels: (N,) in [0, K); returns a scalar, or (N,) with reduction="none".

    prior: add log pi, the paper's margin modification.
    """

    class_counts: Tensor

    def __init__(
        self,
        class_counts: ClassCounts,
        dim: int = 128,
        temperature: float = 0.1,
        *,
        prior: bool = True,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__()
        if dim < 1:
            raise ValueError(f"dim must be at least 1; got {dim}.")
        require_positive(temperature=temperature)
        require_choice(Reduction, reduction=reduction)
        self.register_buffer("class_counts", as_class_counts(class_counts))
        self.dim, self.temperature, self.prior = dim, temperature, prior
        self.reduction: Reduction = reduction
        self.begin()
        self.to(self.class_counts.device)

    @abstractmethod
    def begin(self) -> None:
        """Make room for what is known of the classes."""

    @property
    def num_classes(self) -> int:
        """The number K of classes."""
        return len(self.class_counts)

    @abstractmethod
    def scores(self, embeddings: Tensor) -> Tensor:
        """Return how near each class is, (N, K)."""

    def update(self, embeddings: Tensor, labels: Tensor) -> None:
        """Take a batch into what is known of the classes."""

    def start_epoch(self) -> None:
        """Begin an epoch."""

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """Return the loss of a batch."""
        require_matrix(embeddings, self.dim, "embeddings")
        labels = checked_labels(labels, len(embeddings), self.num_classes)
        with torch.autocast(embeddings.device.type, enabled=False):
            embeddings = embeddings.to(torch.promote_types(embeddings.dtype, torch.float32))
            if self.training:
                self.update(embeddings.detach(), labels)
            scores = self.scores(embeddings)
            if self.prior:
                scores = scores + log_prior(self.class_counts, scores.dtype)
            return reduce(cross_entropy(scores, labels.long(), reduction="none"), self.reduction)

    def extra_repr(self) -> str:
        """Return the settings."""
        sizes = f"num_classes={self.num_classes}, dim={self.dim}, temperature={self.temperature}"
        return f"{sizes}, prior={self.prior}, reduction={self.reduction!r}"
