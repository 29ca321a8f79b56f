"""Windows: which part of an image a view is made of.

The numbers a window needs are drawn without knowing the image; the box follows when its height and width are known. So
an image store can cut windows out of images of different sizes, and only what is cut is resized and augmented.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from proco.errors import ConfigError

_ATTEMPTS = 10  # boxes tried before the largest one is taken, as in torchvision


class Box(NamedTuple):
    """Boxes to cut out, (N,) int64 each."""

    top: Tensor
    left: Tensor
    height: Tensor
    width: Tensor


class Window(Protocol):
    """A rule for boxes."""

    def draw(self, size: int, generator: torch.Generator) -> Tensor:
        """Draw what size boxes need: (size, r) float32, uniform in [0, 1); r may be 0."""

    def boxes(self, randoms: Tensor, height: int, width: int) -> Box:
        """Return the boxes for randoms (n, r), in images of the given height and width, on the device of randoms."""


@dataclass(frozen=True)
class CentreWindow:
    """The centred square whose side is a share, in (0, 1], of the image's shorter side.

    A share of 0.875 is what Resize(256) and CenterCrop(224) leave.
    """

    share: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise ConfigError(f"share must lie in (0, 1], the part of the image's shorter side; got {self.share}.")

    def draw(self, size: int, generator: torch.Generator) -> Tensor:
        """Return (size, 0): nothing is random."""
        return torch.empty(size, 0, device=generator.device)

    def boxes(self, randoms: Tensor, height: int, width: int) -> Box:
        """Return the same square for every row of randoms."""
        side = max(1, round(self.share * min(height, width)))
        top, left = (height - side) // 2, (width - side) // 2
        return Box(*(torch.full((len(randoms),), value, device=randoms.device) for value in (top, left, side, side)))


@dataclass(frozen=True)
class RandomWindow:
    """A box of random area (a share in scale) and aspect (log-uniform in ratio), as RandomResizedCrop draws it.

    The first of ten attempts that fits is taken; where none does, the largest centred box of a permitted aspect.
    """

    scale: tuple[float, ...] = (0.08, 1.0)
    ratio: tuple[float, ...] = (3 / 4, 4 / 3)

    def __post_init__(self) -> None:
        if not (len(self.scale) == 2 and 0 < self.scale[0] <= self.scale[1] <= 1):
            raise ConfigError(f"scale must be a pair of shares, 0 < low <= high <= 1; got {self.scale}.")
        if not (len(self.ratio) == 2 and 0 < self.ratio[0] <= self.ratio[1]):
            raise ConfigError(f"ratio must be a pair, 0 < low <= high, of width to height; got {self.ratio}.")

    def draw(self, size: int, generator: torch.Generator) -> Tensor:
        """Return (size, 22): area and aspect of each attempt, and the place, down and across."""
        return torch.rand(size, 2 * _ATTEMPTS + 2, generator=generator, device=generator.device)

    def boxes(self, randoms: Tensor, height: int, width: int) -> Box:
        """Return a box for every row of randoms."""
        low, high = self.scale
        area = height * width * (low + (high - low) * randoms[:, :_ATTEMPTS])
        low, high = (math.log(ratio) for ratio in self.ratio)
        aspect = torch.exp(low + (high - low) * randoms[:, _ATTEMPTS : 2 * _ATTEMPTS])
        widths, heights = (area * aspect).sqrt().round().long(), (area / aspect).sqrt().round().long()
        fits = (widths > 0) & (widths <= width) & (heights > 0) & (heights <= height)
        first, found = fits.int().argmax(dim=1, keepdim=True), fits.any(dim=1)
        largest_width = min(width, round(height * self.ratio[1]))
        largest_height = min(height, round(width / self.ratio[0]))
        box_width = torch.where(found, widths.gather(1, first)[:, 0], largest_width)
        box_height = torch.where(found, heights.gather(1, first)[:, 0], largest_height)
        place = randoms[:, 2 * _ATTEMPTS :]
        top = torch.where(found, (place[:, 0] * (height - box_height + 1)).long(), (height - box_height) // 2)
        left = torch.where(found, (place[:, 1] * (width - box_width + 1)).long(), (width - box_width) // 2)
        return Box(top, left, box_height, box_width)
