"""Heads of several experts."""

from torch import Tensor, nn


class ExpertHeads(nn.ModuleList):
    """A head for each expert, all classifiers or all projectors, on its part of features (N, E d)."""

    def forward(self, features: Tensor) -> list[Tensor]:
        """Return what each head makes of its part."""
        return [head(part) for head, part in zip(self, features.chunk(len(self), dim=1), strict=True)]
