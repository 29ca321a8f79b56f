"""AutoAugment with the policy found for CIFAR-10 (Cubuk et al., CVPR 2019), each image with choices of its own.

A policy is 25 pairs of steps; an image draws one pair and takes each of its steps with the step's probability. A level
from 0 to 9 stands for a strength, by the operation's own scale. Signs are drawn for moves and blends.
"""

from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from proco.augment import geometric, photometric
from proco.augment.selection import apply_where


class Step(NamedTuple):
    """One operation of a policy."""

    operation: str
    probability: float
    level: int = 0


CIFAR10_POLICY: tuple[tuple[Step, Step], ...] = (
    (Step("invert", 0.1), Step("contrast", 0.2, 6)),
    (Step("rotate", 0.7, 2), Step("translate_x", 0.3, 9)),
    (Step("sharpness", 0.8, 1), Step("sharpness", 0.9, 3)),
    (Step("shear_y", 0.5, 8), Step("translate_y", 0.7, 9)),
    (Step("auto_contrast", 0.5), Step("equalize", 0.9)),
    (Step("shear_y", 0.2, 7), Step("posterize", 0.3, 7)),
    (Step("color", 0.4, 3), Step("brightness", 0.6, 7)),
    (Step("sharpness", 0.3, 9), Step("brightness", 0.7, 9)),
    (Step("equalize", 0.6), Step("equalize", 0.5)),
    (Step("contrast", 0.6, 7), Step("sharpness", 0.6, 5)),
    (Step("color", 0.7, 7), Step("translate_x", 0.5, 8)),
    (Step("equalize", 0.3), Step("auto_contrast", 0.4)),
    (Step("translate_y", 0.4, 3), Step("sharpness", 0.2, 6)),
    (Step("brightness", 0.9, 6), Step("color", 0.2, 8)),
    (Step("solarize", 0.5, 2), Step("invert", 0.0)),
    (Step("equalize", 0.2), Step("auto_contrast", 0.6)),
    (Step("equalize", 0.2), Step("equalize", 0.6)),
    (Step("color", 0.9, 9), Step("equalize", 0.6)),
    (Step("auto_contrast", 0.8), Step("solarize", 0.2, 8)),
    (Step("brightness", 0.1, 3), Step("color", 0.7, 0)),
    (Step("solarize", 0.4, 5), Step("auto_contrast", 0.9)),
    (Step("translate_y", 0.9, 9), Step("translate_y", 0.7, 9)),
    (Step("auto_contrast", 0.9), Step("solarize", 0.8, 3)),
    (Step("equalize", 0.8), Step("invert", 0.1)),
    (Step("translate_y", 0.7, 9), Step("auto_contrast", 0.9)),
)

OPERATIONS = tuple(sorted({step.operation for pair in CIFAR10_POLICY for step in pair}))
_LEVELS = 10


class Choices(NamedTuple):
    """What each image will undergo: two steps, (N, 2) each."""

    operation: Tensor  # index into OPERATIONS, or -1: nothing
    level: Tensor
    is_negative: Tensor


def draw(size: int, generator: torch.Generator) -> Choices:
    """Draw choices for size images, on the generator's device."""
    device = generator.device
    operation, level, probability = (table.to(device) for table in _tables())
    pair = torch.randint(len(CIFAR10_POLICY), (size,), generator=generator, device=device)
    taken = torch.rand(size, 2, generator=generator, device=device) < probability[pair]
    return Choices(
        operation=torch.where(taken, operation[pair], -1),
        level=level[pair],
        is_negative=torch.rand(size, 2, generator=generator, device=device) < 0.5,
    )


def auto_augment(images: Tensor, choices: Choices, *, fill: int = 128) -> Tensor:
    """Apply the choices to images (N, C, H, W) uint8; what moves leave empty has the value fill."""
    images = images.clone()
    for step in range(choices.operation.shape[1]):
        for index, name in enumerate(OPERATIONS):
            chosen = choices.operation[:, step] == index
            _apply(name, chosen, images, choices.level[:, step], choices.is_negative[:, step], fill)
    return images


def _apply(name: str, chosen: Tensor, images: Tensor, level: Tensor, is_negative: Tensor, fill: int) -> None:
    sign = torch.where(is_negative, -1, 1)
    height, width = images.shape[2:]
    match name:
        case "shear_x" | "shear_y":
            apply_where(chosen, partial(getattr(geometric, name), fill=fill), images, _strength(0.3, level) * sign)
        case "translate_x" | "translate_y":
            # The policy was found on images of 331 pixels; part of a pixel is dropped.
            reach = 150 / 331 * (width if name == "translate_x" else height)
            pixels = _strength(reach, level).long() * sign
            apply_where(chosen, partial(getattr(geometric, name), fill=fill), images, pixels)
        case "rotate":
            apply_where(chosen, partial(geometric.rotate, fill=fill), images, _strength(30, level) * sign)
        case "brightness" | "contrast" | "sharpness":
            apply_where(chosen, getattr(photometric, name), images, 1 + _strength(0.9, level) * sign)
        case "color":
            apply_where(chosen, photometric.saturation, images, 1 + _strength(0.9, level) * sign)
        case "posterize":
            apply_where(chosen, photometric.posterize, images, 8 - _strength(4, level).round().long())
        case "solarize":
            apply_where(chosen, photometric.solarize, images, 255 - _strength(255, level))
        case _:
            apply_where(chosen, getattr(photometric, name), images)


def _strength(largest: float, level: Tensor) -> Tensor:
    """Return the strength of a level: ten steps from 0 to largest, rounded to float32 as torchvision's, in float64."""
    return torch.linspace(0, largest, _LEVELS, device=level.device)[level].double()


def _tables() -> tuple[Tensor, Tensor, Tensor]:
    """Operation, level and probability of every step of the policy, (25, 2) each."""
    steps = [
        [(OPERATIONS.index(step.operation), step.level, step.probability) for step in pair] for pair in CIFAR10_POLICY
    ]
    table = torch.tensor(steps)
    return table[..., 0].long(), table[..., 1].long(), table[..., 2]
