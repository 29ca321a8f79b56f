"""A linear classifier that predicts by weights of evened lengths."""

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from proco.models.heads.otherwise import EvaluatesOtherwise
from proco.ranges import require_not_negative


class TauNormClassifier(nn.Linear, EvaluatesOtherwise):
    """features.w_j / |w_j|^tau in evaluation: logits (N, K) of features (N, d), without the bias.

    In training it is a linear classifier with a bias. Weights of frequent classes grow long; tau = 1 makes all of one
    length, tau = 0 leaves them as they are. A class whose weights are 0 has logit 0.
    """

    def __init__(self, num_features: int, num_classes: int, *, tau: float = 0.7) -> None:
        require_not_negative(tau=tau)
        super().__init__(num_features, num_classes)
        self.tau = tau

    def forward(self, features: Tensor) -> Tensor:
        """Return the logits."""
        if self.training:
            return super().forward(features)
        lengths = torch.linalg.vector_norm(self.weight, dim=1, keepdim=True)
        return linear(features, torch.where(lengths > 0, self.weight / lengths**self.tau, 0.0))

    def extra_repr(self) -> str:
        """Return the sizes and tau."""
        return f"{super().extra_repr()}, tau={self.tau}"
