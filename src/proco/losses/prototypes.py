"""Contrast of embeddings with one score for each class: what the paper's other class complements have in common."""

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, normalize

from proco.full_precision import FullPrecisionModule
from proco.losses.batch import Reduction, checked_labels, reduce, require_matrix
from proco.losses.class_counts import ClassCounts, as_class_counts, log_prior
from proco.ranges import require_below_one, require_choice, require_positive
from proco.sphere.moments import ClassMoments, class_sums


class PrototypeLoss(FullPrecisionModule, ABC):
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
        self.begin(len(self.class_counts), dim)
        self.to(self.class_counts.device)

    @abstractmethod
    def begin(self, num_classes: int, dim: int) -> None:
        """Make room for what is known of the classes."""

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
        labels = checked_labels(labels, len(embeddings), len(self.class_counts))
        with torch.autocast(embeddings.device.type, enabled=False):
            embeddings = embeddings.to(torch.promote_types(embeddings.dtype, torch.float32))
            if self.training:
                self.update(embeddings.detach(), labels)
            scores = self.scores(embeddings)
            if self.prior:
                scores = scores + log_prior(self.class_counts, scores.dtype)
            return reduce(cross_entropy(scores, labels.long(), reduction="none"), self.reduction)


class LearnablePrototypeLoss(PrototypeLoss):
    """score_ij = w_j.z_i / tau with unit vectors w_j that are learnt: a cosine classifier (the paper's CC)."""

    def begin(self, num_classes: int, dim: int) -> None:
        """Draw the prototypes."""
        self.weight = nn.Parameter(normalize(torch.randn(num_classes, dim), dim=1))

    def scores(self, embeddings: Tensor) -> Tensor:
        """Return cosines over the temperature."""
        return embeddings @ normalize(self.weight.to(embeddings.dtype), dim=1).T / self.temperature


class EmaPrototypeLoss(PrototypeLoss):
    """score_ij = c_j.z_i / tau with c_j <- normalize(m c_j + (1 - m) mean of the batch's class j).

    A class counts from its first image on; before, its prototype is 0. Over several ranks the mean is that of all.
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

    def begin(self, num_classes: int, dim: int) -> None:
        """Begin with prototypes of 0."""
        self.register_buffer("prototypes", torch.zeros(num_classes, dim))

    def scores(self, embeddings: Tensor) -> Tensor:
        """Return cosines over the temperature."""
        prototypes = self.prototypes.clone()  # the next view moves them before the gradient is taken
        return embeddings @ prototypes.to(embeddings.dtype).T / self.temperature

    @torch.no_grad()
    def update(self, embeddings: Tensor, labels: Tensor) -> None:
        """Move the prototypes of the batch's classes; rows that are not finite are left out."""
        sums, counts = class_sums(embeddings.to(self.prototypes.dtype), labels, len(self.class_counts))
        means = sums / counts.clamp_min(1)[:, None]
        is_new = self.prototypes.abs().sum(dim=1, keepdim=True) == 0
        moved = torch.where(is_new, means, self.momentum * self.prototypes + (1 - self.momentum) * means)
        self.prototypes.copy_(torch.where(counts[:, None] > 0, normalize(moved, dim=1), self.prototypes))


class CentroidPrototypeLoss(PrototypeLoss):
    """score_ij = mu_j.z_i / tau with mu_j the mean direction of ProCo's statistics: ProCo as kappa goes to infinity."""

    def begin(self, num_classes: int, dim: int) -> None:
        """Begin with empty sums."""
        self.moments = ClassMoments(num_classes, dim)

    def scores(self, embeddings: Tensor) -> Tensor:
        """Return cosines over the temperature."""
        return embeddings @ self.moments.mean_direction().to(embeddings.dtype).T / self.temperature

    def update(self, embeddings: Tensor, labels: Tensor) -> None:
        """Add the batch to the sums."""
        self.moments.update(embeddings, labels)

    def start_epoch(self) -> None:
        """Forget what is older than the epoch just ended."""
        self.moments.start_epoch()


class NormalDistributionLoss(PrototypeLoss):
    """score_ij = log E exp(z_i.Z_j / tau) = m_j.z_i / tau + z_i' S_j z_i / (2 tau^2), with Z_j ~ N(m_j, S_j).

    The mean and the full covariance of each class are estimated over ProCo's windows: the previous epoch and this one.
    """

    def begin(self, num_classes: int, dim: int) -> None:
        """Begin with empty sums."""
        self.moments = ClassMoments(num_classes, dim)
        self.second_moments = ClassMoments(num_classes, dim * dim)

    def scores(self, embeddings: Tensor) -> Tensor:
        """Return the logarithms of the expectations."""
        mean = self.moments.mean().to(embeddings.dtype)
        projected = embeddings @ mean.T
        raw = self.second_moments.mean().to(embeddings.dtype).view(len(mean), self.dim, self.dim)
        # z' S z = z' E[Z Z'] z - (m.z)^2, by one product of (N, p) and (p, K p).
        images = (embeddings @ raw.transpose(0, 1).reshape(self.dim, -1)).view(len(embeddings), len(mean), self.dim)
        spread = (images * embeddings[:, None, :]).sum(dim=2) - projected.square()
        return projected / self.temperature + spread.clamp_min(0) / (2 * self.temperature**2)

    def update(self, embeddings: Tensor, labels: Tensor) -> None:
        """Add the batch to the sums of embeddings and of their products."""
        self.moments.update(embeddings, labels)
        self.second_moments.update((embeddings[:, :, None] * embeddings[:, None, :]).flatten(1), labels)

    def start_epoch(self) -> None:
        """Forget what is older than the epoch just ended."""
        self.moments.start_epoch()
        self.second_moments.start_epoch()
