"""Contrast with the mean directions of the classes, an ablation of ProCo's paper (Du et al., T-PAMI 2024)."""

from torch import Tensor

from proco.losses.class_complement import ClassComplementLoss
from proco.sphere.moments import ClassMoments


class CentroidPrototypeLoss(ClassComplementLoss):
    """score_ij = mu_j.z_i / tau with mu_j the mean direction of ProCo's statistics: ProCo as kappa goes to infinity."""

    def begin(self) -> None:
        """Begin with empty sums."""
        self.moments = ClassMoments(self.num_classes, self.dim)

    def scores(self, embeddings: Tensor) -> Tensor:
        """Return cosines over the temperature."""
        return embeddings @ self.moments.mean_direction().to(embeddings.dtype).T / self.temperature

    def update(self, embeddings: Tensor, labels: Tensor) -> None:
        """Add the batch to the sums."""
        self.moments.update(embeddings, labels)

    def start_epoch(self) -> None:
        """Forget what is older than the epoch just ended."""
        self.moments.start_epoch()
