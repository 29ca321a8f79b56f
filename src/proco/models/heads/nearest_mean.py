"""A classifier by the nearest class mean."""

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from proco.distributed import all_reduce_sum
from proco.models.heads.fitted import FittedClassifier
from proco.models.heads.otherwise import EvaluatesOtherwise
from proco.ranges import require_choice

Distance = Literal["cl2n", "l2n", "raw"]


class NearestMeanClassifier(nn.Linear, FittedClassifier, EvaluatesOtherwise):
    """-|g(features) - m_j|^2 in evaluation, m_j the mean of g over the training images of class j: logits (N, K).

    In training, and as long as nothing was fitted, it is a linear classifier of features (N, d). A class without a
    training image is nearest to nothing: its score is the lowest number there is.

    distance: what g does. "cl2n" takes the mean of all training features off and scales to unit length, "l2n" scales
    only, "raw" leaves features as they are.
    """

    centre: Tensor
    means: Tensor
    is_known: Tensor
    was_fitted: Tensor

    def __init__(self, num_features: int, num_classes: int, *, distance: Distance = "cl2n") -> None:
        require_choice(Distance, distance=distance)
        super().__init__(num_features, num_classes)
        self.distance: Distance = distance
        self.register_buffer("centre", torch.zeros(num_features))
        self.register_buffer("means", torch.zeros(num_classes, num_features))
        self.register_buffer("is_known", torch.zeros(num_classes, dtype=torch.bool))
        self.register_buffer("was_fitted", torch.zeros((), dtype=torch.bool))

    @torch.no_grad()
    def fit(self, features: Tensor, labels: Tensor) -> None:
        """Take the class means over all ranks, of each the features (n, d) and labels (n,) of its training images."""
        features = features.to(self.means.dtype)
        counts = all_reduce_sum(torch.bincount(labels, minlength=len(self.means)))
        self.centre.copy_(all_reduce_sum(features.sum(dim=0)) / counts.sum())
        sums = all_reduce_sum(torch.zeros_like(self.means).index_add_(0, labels, self._compared(features)))
        self.means.copy_(sums / counts.clamp_min(1)[:, None])
        self.is_known.copy_(counts > 0)
        self.was_fitted.fill_(True)

    def forward(self, features: Tensor) -> Tensor:
        """Return the logits."""
        logits = super().forward(features)
        if self.training:
            return logits
        # A look at the buffer would make the host wait for the device, and could not be exported.
        return torch.where(self.was_fitted, self._nearness(features).to(logits.dtype), logits)

    def extra_repr(self) -> str:
        """Return the sizes and the distance."""
        return f"{super().extra_repr()}, distance={self.distance!r}"

    def _nearness(self, features: Tensor) -> Tensor:
        compared = self._compared(features)
        squares = compared.square().sum(dim=1, keepdim=True) + self.means.square().sum(dim=1)
        nearness = 2 * compared @ self.means.T - squares
        return nearness.masked_fill(~self.is_known, torch.finfo(nearness.dtype).min)

    def _compared(self, features: Tensor) -> Tensor:
        if self.distance == "l2n":
            return normalize(features, dim=1)
        # Raw distances are the same without the centre, and keep their digits where all features share a direction.
        features = features - self.centre
        return normalize(features, dim=1) if self.distance == "cl2n" else features
