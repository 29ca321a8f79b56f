"""The AutoAugment view, which ProCo's classifier sees on CIFAR."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from proco.augment import geometric
from proco.augment.auto_augment import MOVES, Version, draw_auto_augment
from proco.augment.operations import Steps, apply_steps
from proco.augment.view import View, refuse_negative
from proco.augment.weak import Weak, WeakChoices


class AutoChoices(NamedTuple):
    """What each image undergoes, in this order."""

    weak: WeakChoices
    steps: Steps
    hole: Tensor  # (N, 2): where Cutout's centre is, down and across, in [0, 1)


@View.registry.register("auto")
@dataclass(frozen=True, kw_only=True)
class Auto(View):
    """Crop with padding, flip, the CIFAR-10 policy of AutoAugment, and Cutout (DeVries and Taylor, 2017)."""

    padding: int = 4
    """Pixels added on each side before the crop; 0 for no crop."""
    flip: bool = True
    """Mirror images left to right; not for digits or text."""
    policy: bool = True
    """Apply the policy; without it crop, flip and Cutout are left."""
    version: Version = "torchvision"
    """Whose operations: `torchvision`'s, or those of the `official` code; they differ in how pixels are moved."""
    cutout: int = 16
    """Side of the black square around a random pixel; 0 for none."""

    def __post_init__(self) -> None:
        """Refuse negative numbers of pixels."""
        super().__post_init__()
        refuse_negative(padding=self.padding, cutout=self.cutout)

    @property
    def _weak(self) -> Weak:
        return Weak(padding=self.padding, flip=self.flip)

    def draw(self, size: int, generator: torch.Generator) -> AutoChoices:
        """Draw shift and flip, two steps of the policy, and the place of the hole."""
        return AutoChoices(
            weak=self._weak.draw(size, generator),
            steps=draw_auto_augment(size, generator, self.version),
            hole=torch.rand(size, 2, generator=generator, device=generator.device),
        )

    def apply(self, images: Tensor, choices: AutoChoices) -> Tensor:
        """Apply all of it."""
        views = self._weak.apply(images, choices.weak)
        if self.policy:
            views = apply_steps(views, choices.steps, MOVES[self.version])
        if not self.cutout:
            return views
        height, width = views.shape[2:]
        row, column = (choices.hole[:, 0] * height).long(), (choices.hole[:, 1] * width).long()
        return geometric.cut_out(views, row - self.cutout // 2, column - self.cutout // 2, self.cutout)
