"""SimAugment, the views of contrastive learning (Chen et al., ICML 2020) as the official ProCo code makes them.

Random resized crop, flip, colour jitter in random order with probability 0.8, grey with probability 0.2. No blur.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from proco.augment import geometric, photometric
from proco.augment.selection import apply_where

_JITTERS = ("brightness", "contrast", "saturation", "hue")
_ATTEMPTS = 10  # boxes tried before the whole image is taken, as in torchvision


class Box(NamedTuple):
    """Boxes to cut out, (N,) whole numbers each."""

    top: Tensor
    left: Tensor
    height: Tensor
    width: Tensor


class Choices(NamedTuple):
    """What each image will undergo."""

    box: Box
    is_flipped: Tensor  # (N,)
    is_jittered: Tensor  # (N,)
    order: Tensor  # (N, 4): a permutation of the jitters
    strength: Tensor  # (N, 4): three factors and a shift of the hue
    is_grey: Tensor  # (N,)


def draw_boxes(
    size: int,
    height: int,
    width: int,
    generator: torch.Generator,
    *,
    scale: tuple[float, float] = (0.08, 1.0),
    ratio: tuple[float, float] = (3 / 4, 4 / 3),
) -> Box:
    """Draw boxes of random area (a share in scale) and aspect (log-uniform in ratio), as RandomResizedCrop does.

    The first of ten attempts that fits is taken; where none does, the largest centred box of a permitted aspect.
    """
    device = generator.device
    random = torch.rand(2, size, _ATTEMPTS, generator=generator, device=device)
    area = height * width * (scale[0] + (scale[1] - scale[0]) * random[0])
    low, high = math.log(ratio[0]), math.log(ratio[1])
    aspect = torch.exp(low + (high - low) * random[1])
    widths, heights = (area * aspect).sqrt().round().long(), (area / aspect).sqrt().round().long()
    fits = (widths > 0) & (widths <= width) & (heights > 0) & (heights <= height)
    first = fits.int().argmax(dim=1, keepdim=True)
    found = fits.any(dim=1)
    fallback_width = min(width, round(height * ratio[1]))
    fallback_height = min(height, round(width / ratio[0]))
    box_width = torch.where(found, widths.gather(1, first)[:, 0], fallback_width)
    box_height = torch.where(found, heights.gather(1, first)[:, 0], fallback_height)
    place = torch.rand(2, size, generator=generator, device=device)
    top = torch.where(found, (place[0] * (height - box_height + 1)).long(), (height - box_height) // 2)
    left = torch.where(found, (place[1] * (width - box_width + 1)).long(), (width - box_width) // 2)
    return Box(top, left, box_height, box_width)


def draw(
    size: int, height: int, width: int, generator: torch.Generator, *, scale: tuple[float, float] = (0.08, 1.0)
) -> Choices:
    """Draw choices for size images of the given height and width, on the generator's device."""

    def uniform(*shape: int) -> Tensor:
        return torch.rand(*shape, generator=generator, device=generator.device)

    box = draw_boxes(size, height, width, generator, scale=scale)
    reach = torch.tensor([0.4, 0.4, 0.4, 0.1], device=generator.device)
    centre = torch.tensor([1.0, 1.0, 1.0, 0.0], device=generator.device)
    return Choices(
        box=box,
        is_flipped=uniform(size) < 0.5,
        is_jittered=uniform(size) < 0.8,
        order=uniform(size, len(_JITTERS)).argsort(dim=1),
        strength=centre + reach * (2 * uniform(size, len(_JITTERS)) - 1),
        is_grey=uniform(size) < 0.2,
    )


def sim_augment(images: Tensor, choices: Choices, *, size: tuple[int, int] | None = None) -> Tensor:
    """Apply the choices to images (N, C, H, W) uint8; return views (N, C, *size) uint8, by default of the same size."""
    height, width = images.shape[2:]
    views = geometric.resized_crop(images, *choices.box, size or (height, width))
    views = geometric.flip(views, choices.is_flipped)
    for turn in range(len(_JITTERS)):
        for index, name in enumerate(_JITTERS):
            chosen = choices.is_jittered & (choices.order[:, turn] == index)
            apply_where(chosen, getattr(photometric, name), views, choices.strength[:, index])
    apply_where(choices.is_grey, photometric.grayscale, views)
    return views
