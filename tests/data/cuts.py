"""Images and cuts of them, and the same by torchvision."""

import torch
from torch import Tensor
from torchvision.transforms.v2 import functional

from proco.augment.window import Box, Window
from proco.data.images import Cut


def random_pixels(number: int, height: int, width: int, channels: int = 3) -> Tensor:
    """Return noise, the same each time."""
    generator = torch.Generator().manual_seed(0)
    return torch.randint(0, 256, (number, channels, height, width), dtype=torch.uint8, generator=generator)


def drawn(window: Window, number: int) -> Cut:
    """Return a cut of a window that is drawn for so many images, the same each time."""
    return Cut(window, window.draw(number, torch.Generator().manual_seed(1)))


def by_torchvision(image: Tensor, box: Box, row: int, size: tuple[int, int]) -> Tensor:
    """Return what torchvision cuts out of an image by a row of boxes."""
    top, left, height, width = (int(side[row]) for side in box)
    return functional.resized_crop(image, top, left, height, width, list(size), antialias=True)


def difference(first: Tensor, second: Tensor) -> int:
    """Return by how many grey levels two images differ at the most."""
    return int((first.int() - second.int()).abs().max())
