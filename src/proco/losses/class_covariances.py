"""The covariance of the features of each class, followed over batches and ranks.

Shapes: N samples, K classes, d features.
"""

from typing import Literal

import torch
from torch import Tensor

from proco.distributed import all_reduce_sum
from proco.full_precision import FullPrecisionModule
from proco.ranges import require_choice
from proco.sphere.moments import class_sums

CovarianceKind = Literal["full", "diagonal"]


class ClassCovariances(FullPrecisionModule):
    """The covariance of the features of each class over all batches so far, equal on every rank.

    What is known and a batch are joined by their counts, and by how far their means lie apart, so that the result is
    the covariance of all features together, however they were split into batches. Features drift as the network
    learns: old ones count like new ones, as in the authors' code.

    covariance: whole ones (K, d, d), or their diagonals (K, d) where that is too much. A class that was never seen has
    covariance 0.
    """

    counts: Tensor
    means: Tensor
    covariances: Tensor

    def __init__(self, num_classes: int, num_features: int, covariance: CovarianceKind = "full") -> None:
        super().__init__()
        if num_classes < 1 or num_features < 1:
            raise ValueError(f"num_classes and num_features must be at least 1; got {num_classes} and {num_features}.")
        require_choice(CovarianceKind, covariance=covariance)
        self.covariance: CovarianceKind = covariance
        shape = (num_features, num_features) if covariance == "full" else (num_features,)
        self.register_buffer("counts", torch.zeros(num_classes))
        self.register_buffer("means", torch.zeros(num_classes, num_features))
        self.register_buffer("covariances", torch.zeros(num_classes, *shape))

    @torch.no_grad()
    def update(self, features: Tensor, labels: Tensor) -> None:
        """Take in a batch: features (N, d), labels (N,) in [0, K). Rows that are not finite are left out."""
        features = features.detach().to(self.means.dtype)
        sums, counts = class_sums(features, labels, len(self.means))
        means = sums / counts.clamp_min(1)[:, None]
        is_finite = features.isfinite().all(dim=1, keepdim=True)
        deviations = torch.where(is_finite, features - means[labels], 0.0)
        covariances = torch.zeros_like(self.covariances).index_add_(0, labels, self._products(deviations))
        all_reduce_sum(covariances)
        covariances /= self._by_class(counts.clamp_min(1))
        total = self.counts + counts
        share = counts / total.clamp_min(1)
        shift = means - self.means
        between = self._by_class(share * (1 - share)) * self._products(shift)
        self.covariances.lerp_(covariances, self._by_class(share)).add_(between)
        self.means.add_(share[:, None] * shift)
        self.counts.copy_(total)

    def spread(self, weight: Tensor) -> Tensor:
        """Return (w_j - w_y)' S_y (w_j - w_y) for weights (K, d): row y, column j of (K, K).

        By its three products, of which w_j' S_y w_j for all j and y is one matrix product of (K, d^2) and (d^2, K).
        """
        # The next batch changes the buffer before the gradient is taken.
        covariances = self.covariances.clone().to(weight.dtype)
        # Only differences count; what all weights share would cost digits.
        weight = weight - weight.mean(dim=0)
        mapped = (covariances @ weight[:, :, None]).squeeze(2) if self.covariance == "full" else covariances * weight
        squares = covariances.flatten(1) @ self._products(weight).flatten(1).T
        return squares - 2 * mapped @ weight.T + (mapped * weight).sum(dim=1, keepdim=True)

    def extra_repr(self) -> str:
        """Return the sizes."""
        num_classes, num_features = self.means.shape
        return f"num_classes={num_classes}, num_features={num_features}, covariance={self.covariance!r}"

    def _products(self, rows: Tensor) -> Tensor:
        """Return the products of each row with itself, (n, d, d), or the squares (n, d)."""
        return rows[:, :, None] * rows[:, None, :] if self.covariance == "full" else rows.square()

    def _by_class(self, numbers: Tensor) -> Tensor:
        return numbers.reshape(-1, *[1] * (self.covariances.dim() - 1))
