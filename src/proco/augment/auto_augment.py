"""AutoAugment with the policy found for CIFAR-10 (Cubuk et al., CVPR 2019), each image with choices of its own.

A policy is 25 pairs of steps; an image draws one pair and takes each of its steps with the step's probability. A level
from 0 to 9 stands for a strength, by the operation's own scale. Signs are drawn for moves and blends.

Implementations agree in the policy, not in the operations. torchvision's is one; the code of ProCo, and much of the
field, has another, in which translations go to the nearest whole pixel instead of being cut off, shears are bicubic,
images are turned counter-clockwise only, and the thresholds of solarize begin at 256.
"""

from typing import Literal, NamedTuple

import torch
from torch import Tensor

from proco.augment.operations import NOTHING, OPERATIONS, Moves, Steps
from proco.augment.strength import Scale, Space, strengths


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
    (Step("saturation", 0.4, 3), Step("brightness", 0.6, 7)),
    (Step("sharpness", 0.3, 9), Step("brightness", 0.7, 9)),
    (Step("equalize", 0.6), Step("equalize", 0.5)),
    (Step("contrast", 0.6, 7), Step("sharpness", 0.6, 5)),
    (Step("saturation", 0.7, 7), Step("translate_x", 0.5, 8)),
    (Step("equalize", 0.3), Step("auto_contrast", 0.4)),
    (Step("translate_y", 0.4, 3), Step("sharpness", 0.2, 6)),
    (Step("brightness", 0.9, 6), Step("saturation", 0.2, 8)),
    (Step("solarize", 0.5, 2), Step("invert", 0.0)),
    (Step("equalize", 0.2), Step("auto_contrast", 0.6)),
    (Step("equalize", 0.2), Step("equalize", 0.6)),
    (Step("saturation", 0.9, 9), Step("equalize", 0.6)),
    (Step("auto_contrast", 0.8), Step("solarize", 0.2, 8)),
    (Step("brightness", 0.1, 3), Step("saturation", 0.7, 0)),
    (Step("solarize", 0.4, 5), Step("auto_contrast", 0.9)),
    (Step("translate_y", 0.9, 9), Step("translate_y", 0.7, 9)),
    (Step("auto_contrast", 0.9), Step("solarize", 0.8, 3)),
    (Step("equalize", 0.8), Step("invert", 0.1)),
    (Step("translate_y", 0.7, 9), Step("auto_contrast", 0.9)),
)
Version = Literal["torchvision", "official"]
_TORCHVISION: Space = {
    "auto_contrast": None,
    "equalize": None,
    "invert": None,
    "rotate": Scale(0.0, 30.0, is_signed=True),
    "shear_x": Scale(0.0, 0.3, is_signed=True),
    "shear_y": Scale(0.0, 0.3, is_signed=True),
    "translate_x": Scale(0.0, 150 / 331, is_signed=True),  # 150 pixels of the 331 of the images it was found on
    "translate_y": Scale(0.0, 150 / 331, is_signed=True),
    "brightness": Scale(1.0, 0.9, is_signed=True),
    "contrast": Scale(1.0, 0.9, is_signed=True),
    "saturation": Scale(1.0, 0.9, is_signed=True),
    "sharpness": Scale(1.0, 0.9, is_signed=True),
    "posterize": Scale(8.0, -4.0),
    "solarize": Scale(255.0, -255.0),
}
_OFFICIAL: Space = {**_TORCHVISION, "rotate": Scale(0.0, 30.0), "solarize": Scale(256.0, -256.0)}
SPACES: dict[Version, Space] = {"torchvision": _TORCHVISION, "official": _OFFICIAL}
MOVES: dict[Version, Moves] = {
    "torchvision": Moves(fill=128),
    "official": Moves(fill=128, shear_sampling="bicubic", by_whole_pixels=False),
}
HIGHEST_LEVEL = 9


def draw_auto_augment(size: int, generator: torch.Generator, version: Version = "torchvision") -> Steps:
    """Draw two steps for each of size images, on the generator's device."""
    device = generator.device
    operations, levels, probabilities = (table.to(device) for table in _tables())
    pair = torch.randint(len(CIFAR10_POLICY), (size,), generator=generator, device=device)
    is_taken = torch.rand(size, 2, generator=generator, device=device) < probabilities[pair]
    is_negative = torch.rand(size, 2, generator=generator, device=device) < 0.5
    strength = strengths(SPACES[version], operations[pair], levels[pair], is_negative)
    return Steps(torch.where(is_taken, operations[pair], NOTHING), strength)


def _tables() -> tuple[Tensor, Tensor, Tensor]:
    """Operation, level in [0, 1] and probability of every step of the policy, (25, 2) each."""
    operations = [[OPERATIONS.index(step.operation) for step in pair] for pair in CIFAR10_POLICY]
    levels = [[step.level / HIGHEST_LEVEL for step in pair] for pair in CIFAR10_POLICY]
    probabilities = [[step.probability for step in pair] for pair in CIFAR10_POLICY]
    return torch.tensor(operations), torch.tensor(levels, dtype=torch.float64), torch.tensor(probabilities)
