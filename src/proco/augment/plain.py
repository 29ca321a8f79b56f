"""The plain view: the image as it is, for evaluation."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from proco.augment.view import View
from proco.augment.window import CentreWindow


class PlainChoices(NamedTuple):
    """Nothing is random."""


@View.registry.register("plain")
@dataclass(frozen=True, kw_only=True)
class Plain(View):
    """The square in the middle of the image, unchanged."""

    share: float = 1.0
    """Side of the square, as a share of the image's shorter side; 0.875 is the custom for large images."""

    @property
    def window(self) -> CentreWindow:
        """The square in the middle."""
        return CentreWindow(self.share)

    def draw(self, size: int, generator: torch.Generator) -> PlainChoices:
        """Draw nothing."""
        return PlainChoices()

    def apply(self, images: Tensor, choices: PlainChoices) -> Tensor:
        """Return a copy of the images."""
        return images.clone()
