"""The strong view of FixMatch (Sohn et al., NeurIPS 2020), as DASO's code makes it."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from proco.augment import geometric
from proco.augment.operations import Steps, apply_steps
from proco.augment.rand_augment import draw_fixmatch_augment
from proco.augment.view import View, refuse_negative
from proco.augment.weak import Weak, WeakChoices

_GREY = 127


class StrongChoices(NamedTuple):
    """What each image undergoes, in this order."""

    weak: WeakChoices
    steps: Steps
    hole: Tensor  # (N, 2): where Cutout's centre is, down and across, in [0, 1)


@View.registry.register("strong")
@dataclass(frozen=True, kw_only=True)
class Strong(View):
    """Crop with padding, flip, RandAugment at random levels, and a grey Cutout."""

    padding: int = 4
    """Pixels added on each side before the crop; 0 for no crop."""
    pad_mode: geometric.PadMode = "reflect"
    """What the padding is: black, or the image mirrored."""
    flip: bool = True
    """Mirror images left to right; not for digits or text."""
    num_steps: int = 2
    """Operations drawn for each image, half of which are taken."""
    cutout: int = 16
    """Side of the grey square, which is one pixel more, around a random place; 0 for none."""

    def __post_init__(self) -> None:
        """Refuse negative numbers of pixels and steps."""
        super().__post_init__()
        refuse_negative(padding=self.padding, cutout=self.cutout, num_steps=self.num_steps)

    @property
    def _weak(self) -> Weak:
        return Weak(padding=self.padding, pad_mode=self.pad_mode, flip=self.flip)

    def draw(self, size: int, generator: torch.Generator) -> StrongChoices:
        """Draw shift and flip, operations, and the place of the hole."""
        return StrongChoices(
            weak=self._weak.draw(size, generator),
            steps=draw_fixmatch_augment(size, generator, num_steps=self.num_steps),
            hole=torch.rand(size, 2, generator=generator, device=generator.device),
        )

    def apply(self, images: Tensor, choices: StrongChoices) -> Tensor:
        """Apply all of it."""
        views = apply_steps(self._weak.apply(images, choices.weak), choices.steps)
        if not self.cutout:
            return views
        height, width = views.shape[2:]
        # At the upper and left border the square is pushed inside, at the lower and right one cut off; and its far
        # edge is drawn too, so that it is one pixel larger than its size.
        top, left = (
            (choices.hole[:, i] * side - self.cutout / 2).clamp_min(0).long() for i, side in ((0, height), (1, width))
        )
        return geometric.cut_out(views, top, left, self.cutout + 1, fill=_GREY)
