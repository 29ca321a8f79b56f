"""Contrast with moving averages of the classes' embeddings, an ablation of ProCo's paper (Du et al., T-PAMI 2024)."""

import torch
from torch import Tensor
from torch.nn.functional import normalize

from proco.losses.batch import Reduction
from proco.losses.class_complement import ClassComplementLoss
from proco.losses.class_counts import ClassCounts
from proco.ranges import require_below_one
from proco.sphere.moments import class_sums


class EmaPrototypeLoss(ClassComplementLoss):
    """score_ij = c_j.z_i / tau with c_j <- normalize(m c_j + (1 - m) mean of the batch's class j).

    A class counts from its first image on; before, its prototype is 0. Over several ranks the mean is that of all.
    momentum is m.
    """

    prototypes: Tensor

    def __init__(
        self,
        class_counts: ClassCounts,
        dim: int = 128,
        temperature: float = 0.1,
        *,
        momentum: float = 0.99,
        prior: bool = True,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(class_counts, dim, temperature, prior=prior, reduction=reduction)
        require_below_one(momentum=momentum)
        self.momentum = momentum

    def begin(self) -> None:
        """Begin with prototypes of 0."""
        self.register_buffer("prototypes", torch.zeros(self.num_classes, self.dim))

    def scores(self, embeddings: Tensor) -> Tensor:
        """Return cosines over the temperature."""
        prototypes = self.prototypes.clone()  # the next view moves them before the gradient is taken
        return embeddings @ prototypes.to(embeddings.dtype).T / self.temperature

    @torch.no_grad()
    def update(self, embeddings: Tensor, labels: Tensor) -> None:
        """Move the prototypes of the batch's classes; rows that are not finite are left out."""
        sums, counts = class_sums(embeddings.to(self.prototypes.dtype), labels, self.num_classes)
        means = sums / counts.clamp_min(1)[:, None]
        # Of a class that is new the first mean alone is left: its direction is what counts.
        moved = self.momentum * self.prototypes + (1 - self.momentum) * means
        self.prototypes.copy_(torch.where(counts[:, None] > 0, normalize(moved, dim=1), self.prototypes))

    def extra_repr(self) -> str:
        """Return the settings."""
        return f"{super().extra_repr()}, momentum={self.momentum}"
