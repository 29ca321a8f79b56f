"""A classifier by cosines."""

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from proco.ranges import require_positive


class CosineClassifier(nn.Module):
    """scale cos(features, weight_j): logits (N, K) of features (N, d), without a bias.

    The weights start as uniform numbers in (-1, 1) scaled to unit length, as in ProCo's official code (scale 30).
    """

    def __init__(self, num_features: int, num_classes: int, *, scale: float = 30.0) -> None:
        super().__init__()
        require_positive(scale=scale)
        self.weight = nn.Parameter(torch.empty(num_classes, num_features))
        self.scale = scale
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the weights anew."""
        with torch.no_grad():
            self.weight.copy_(normalize(self.weight.uniform_(-1, 1), dim=1))

    def forward(self, features: Tensor) -> Tensor:
        """Return the logits."""
        return self.scale * normalize(features, dim=1) @ normalize(self.weight, dim=1).T

    def extra_repr(self) -> str:
        """Return the sizes."""
        num_classes, num_features = self.weight.shape
        return f"num_features={num_features}, num_classes={num_classes}, scale={self.scale}"
