"""The weak view: a shift by a few pixels and a flip, the custom for CIFAR."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from proco.augment import geometric
from proco.augment.view import View, refuse_negative


class WeakChoices(NamedTuple):
    """Shift and flip, (N,) each."""

    top: Tensor
    left: Tensor
    is_flipped: Tensor


@View.registry.register("weak")
@dataclass(frozen=True, kw_only=True)
class Weak(View):
    """Crop at a random place after padding, then flip half of the images."""

    padding: int = 4
    """Pixels added on each side before the crop; 0 for no crop."""
    pad_mode: geometric.PadMode = "zero"
    """What the padding is: black, or the image mirrored."""
    flip: bool = True
    """Mirror images left to right; not for digits or text."""

    def __post_init__(self) -> None:
        """Refuse a negative padding."""
        super().__post_init__()
        refuse_negative(padding=self.padding)

    def draw(self, size: int, generator: torch.Generator) -> WeakChoices:
        """Draw shifts, evenly from -padding to padding, and flips."""
        reach = (-self.padding, self.padding + 1)
        top, left = torch.randint(*reach, (2, size), generator=generator, device=generator.device)
        return WeakChoices(top, left, draw_flips(size, generator, flip=self.flip))

    def apply(self, images: Tensor, choices: WeakChoices) -> Tensor:
        """Shift and flip the images."""
        if self.padding:
            images = geometric.shifted_crop(images, choices.top, choices.left, pad_mode=self.pad_mode)
        return geometric.flip(images, choices.is_flipped)


def draw_flips(size: int, generator: torch.Generator, *, flip: bool) -> Tensor:
    """Draw which of size images are mirrored: half of them, or none."""
    return torch.rand(size, generator=generator, device=generator.device) < (0.5 if flip else 0.0)
