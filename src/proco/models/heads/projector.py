"""From features to unit embeddings."""

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize


class Projector(nn.Module):
    """Linear, batch norm, ReLU, linear: unit embeddings (N, dim) of features (N, d), from PyTorch's initialisation.

    ProCo has hidden 512 and dim 128 on CIFAR (paper), hidden 2048 and dim 1024 on the large sets (official code).
    """

    def __init__(self, num_features: int, *, hidden: int = 512, dim: int = 128) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(num_features, hidden), nn.BatchNorm1d(hidden), nn.ReLU(), nn.Linear(hidden, dim)
        )

    def forward(self, features: Tensor) -> Tensor:
        """Return the embeddings, normalised in float32 also under autocast."""
        projected = self.layers(features)
        return normalize(projected.to(torch.promote_types(projected.dtype, torch.float32)), dim=1)
