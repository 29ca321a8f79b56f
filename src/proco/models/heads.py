"""Heads: from features to logits (standardised, cosine) and to unit embeddings (projector), of several experts too."""

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize


class StandardisedClassifier(nn.Linear):
    """weight (features - mean) / deviation + bias: logits (N, K) of features (N, d), each standardised over the batch.

    It can say what a linear classifier of the features can, but how fast it learns does not depend on how long these
    are, nor on a direction that all of them share. That is what a probe of a frozen backbone needs.
    """

    def __init__(self, num_features: int, num_classes: int) -> None:
        super().__init__(num_features, num_classes)
        self.norm = nn.BatchNorm1d(num_features, affine=False)

    def forward(self, features: Tensor) -> Tensor:
        """Return the logits; in evaluation, of features standardised by the running mean and variance."""
        return super().forward(self.norm(features))


class CosineClassifier(nn.Module):
    """scale cos(features, weight_j): logits (N, K) of features (N, d), without a bias.

    The weights start as uniform numbers in (-1, 1) scaled to unit length, as in the official code (scale 30).
    """

    def __init__(self, num_features: int, num_classes: int, *, scale: float = 30.0) -> None:
        super().__init__()
        self.weight = nn.Parameter(normalize(torch.empty(num_classes, num_features).uniform_(-1, 1), dim=1))
        self.scale = scale

    def forward(self, features: Tensor) -> Tensor:
        """Return the logits."""
        return self.scale * normalize(features, dim=1) @ normalize(self.weight, dim=1).T

    def extra_repr(self) -> str:
        """Return the sizes."""
        num_classes, num_features = self.weight.shape
        return f"num_features={num_features}, num_classes={num_classes}, scale={self.scale}"


class Projector(nn.Module):
    """Linear, batch norm, ReLU, linear: unit embeddings (N, dim) of features (N, d), from PyTorch's initialisation.

    The paper's sizes: hidden 512 and dim 128 on CIFAR; the official code's on the large sets: hidden 2048 and dim 1024.
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


class ExpertHeads(nn.ModuleList):
    """A head for each expert, all classifiers or all projectors, on its part of features (N, E d)."""

    def forward(self, features: Tensor) -> list[Tensor]:
        """Return what each head makes of its part."""
        return [head(part) for head, part in zip(self, features.chunk(len(self), dim=1), strict=True)]
