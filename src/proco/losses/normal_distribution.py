"""Contrast with a normal distribution of each class, an ablation of ProCo's paper (Du et al., T-PAMI 2024)."""

from torch import Tensor

from proco.losses.class_complement import ClassComplementLoss
from proco.sphere.moments import ClassMoments


class NormalDistributionLoss(ClassComplementLoss):
    """score_ij = log E exp(z_i.Z_j / tau) = m_j.z_i / tau + z_i' S_j z_i / (2 tau^2), with Z_j ~ N(m_j, S_j).

    The mean and the full covariance of each class are estimated over ProCo's windows: the previous epoch and this one.
    """

    def begin(self) -> None:
        """Begin with empty sums."""
        self.moments = ClassMoments(self.num_classes, self.dim)
        self.second_moments = ClassMoments(self.num_classes, self.dim**2)

    def scores(self, embeddings: Tensor) -> Tensor:
        """Return the logarithms of the expectations."""
        mean = self.moments.mean().to(embeddings.dtype)
        projected = embeddings @ mean.T
        raw = self.second_moments.mean().to(embeddings.dtype).view(len(mean), self.dim, self.dim)
        # z' S z = z' E[Z Z'] z - (m.z)^2, by one product of (N, p) and (p, K p).
        mapped = (embeddings @ raw.transpose(0, 1).reshape(self.dim, -1)).view(len(embeddings), len(mean), self.dim)
        spread = (mapped * embeddings[:, None, :]).sum(dim=2) - projected.square()
        return projected / self.temperature + spread.clamp_min(0) / (2 * self.temperature**2)

    def update(self, embeddings: Tensor, labels: Tensor) -> None:
        """Add the batch to the sums of embeddings and of their products."""
        self.moments.update(embeddings, labels)
        self.second_moments.update((embeddings[:, :, None] * embeddings[:, None, :]).flatten(1), labels)

    def start_epoch(self) -> None:
        """Forget what is older than the epoch just ended."""
        self.moments.start_epoch()
        self.second_moments.start_epoch()
