"""CutMix (Yun et al., ICCV 2019): a box of another image pasted into a view, which then shows two classes."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from proco.augment.blend import Blend
from proco.augment.selection import where


class PasteChoices(NamedTuple):
    """Where the box lies in each of N images, in shares of their height and width."""

    side: Tensor  # (N,): of the box; 0 for none
    centre: Tensor  # (N, 2): down and across


@dataclass(frozen=True, kw_only=True)
class Paste(Blend):
    """Which images get a box of another one, and of which."""

    sampler: str = "class_balanced"
    """How the images are drawn that boxes are cut out of; class_balanced puts rare classes on many grounds."""

    def draw(self, size: int, generator: torch.Generator) -> PasteChoices:
        """Draw the boxes of size images: areas uniform in [0, 1], that is Beta(1, 1), centres anywhere."""
        taken, area = torch.rand(2, size, generator=generator, device=generator.device)
        side = torch.where(taken < self.probability, area.sqrt(), 0.0)
        return PasteChoices(side, torch.rand(size, 2, generator=generator, device=generator.device))

    def apply(self, images: Tensor, others: Tensor, choices: PasteChoices) -> tuple[Tensor, Tensor]:
        """Paste boxes of others into images, both (N, C, H, W) uint8; return them and the share that is their own.

        The box stays where it is in the other image; what sticks out of the image is lost.
        """
        height, width = images.shape[2:]
        in_rows = _inside(choices.side, choices.centre[:, 0], height)
        in_columns = _inside(choices.side, choices.centre[:, 1], width)
        is_pasted = in_rows[:, :, None] & in_columns[:, None, :]
        share = 1 - is_pasted.sum(dim=(1, 2)) / (height * width)
        return where(is_pasted[:, None], others, images), share


def _inside(side: Tensor, centre: Tensor, length: int) -> Tensor:
    """Return which of length pixels lie in the box, (N, length)."""
    half = (side * length / 2).floor()
    middle = (centre * length).floor()
    pixel = torch.arange(length, device=side.device)
    return (pixel >= (middle - half)[:, None]) & (pixel < (middle + half)[:, None])
