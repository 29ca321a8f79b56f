"""Mixup (Zhang et al., ICLR 2018): another image laid over a view, which then shows two classes."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from proco.augment.blend import Blend
from proco.ranges import require_positive


class MixupChoices(NamedTuple):
    """How much of each of N images stays."""

    share: Tensor  # (N,)


@dataclass(frozen=True, kw_only=True)
class Mixup(Blend):
    """Which images are mixed with another one, and with which: share x + (1 - share) x', share ~ Beta(alpha, alpha).

    Each image has a share and another image of its own; the original draws one share for a batch and mixes the images
    of the batch with each other.
    """

    alpha: float = 1.0
    """Of the distribution of shares: 1 is uniform, smaller ones leave most images almost as they are."""

    def __post_init__(self) -> None:
        """Refuse parameters of no Beta distribution."""
        super().__post_init__()
        require_positive(**{"mixup.alpha": self.alpha})

    def draw(self, size: int, generator: torch.Generator) -> MixupChoices:
        """Draw the shares of size images."""
        taken = torch.rand(size, generator=generator, device=generator.device) < self.probability
        # Beta(a, a) is the share of the first in two numbers of Gamma(a).
        shape = torch.full((2, size), self.alpha, device=generator.device)
        first, second = torch._standard_gamma(shape, generator=generator)
        share = torch.where(first + second > 0, first / (first + second), 0.5)
        return MixupChoices(torch.where(taken, share, 1.0))

    def apply(self, images: Tensor, others: Tensor, choices: MixupChoices) -> tuple[Tensor, Tensor]:
        """Mix images with others, both (N, C, H, W) uint8; return the mixtures and the share that is their own."""
        share = choices.share.to(torch.float32)
        mixed = torch.lerp(others.float(), images.float(), share[:, None, None, None])
        return mixed.round().to(torch.uint8), share
