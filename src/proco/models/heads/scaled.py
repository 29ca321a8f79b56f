"""A linear classifier whose logits have a learnable scale for each class."""

import torch
from torch import Tensor, nn


class ScaledClassifier(nn.Linear):
    """(weight features + bias)_j scale_j: logits (N, K) of features (N, d); the scales (K,) start at 1.

    While they stay there, it is a linear classifier.
    """

    def __init__(self, num_features: int, num_classes: int) -> None:
        super().__init__(num_features, num_classes)
        self.scale = nn.Parameter(torch.ones(num_classes))

    def reset_parameters(self) -> None:
        """Draw weights and biases anew, and scale them by 1."""
        super().reset_parameters()
        if "scale" in self._parameters:  # not yet as the linear part is made
            nn.init.ones_(self.scale)

    def forward(self, features: Tensor) -> Tensor:
        """Return the logits."""
        return super().forward(features) * self.scale
