"""RandAugment (Cubuk et al., 2020): operations drawn evenly, with replacement, each taken with probability 0.5.

Two variants are in use: timm's, with one level for all and a little noise, in the official ProCo code for large images;
and FixMatch's, with any of nine levels, whose blends only weaken an image.
"""

import torch
from torch import Tensor

from proco.augment.operations import NOTHING, OPERATIONS, Steps
from proco.augment.strength import Scale, Space, strengths

PROBABILITY = 0.5
TIMM_SPACE: Space = {
    "auto_contrast": None,
    "equalize": None,
    "invert": None,
    "rotate": Scale(0.0, 30.0, is_signed=True),
    "posterize": Scale(0.0, 4.0, is_whole=True),  # the more bits, the weaker: at level 1 four are left
    "solarize": Scale(0.0, 256.0, is_whole=True),  # likewise: at level 1 nothing is inverted
    "solarize_add": Scale(0.0, 110.0, is_whole=True),
    "saturation": Scale(0.1, 1.8),
    "contrast": Scale(0.1, 1.8),
    "brightness": Scale(0.1, 1.8),
    "sharpness": Scale(0.1, 1.8),
    "shear_x": Scale(0.0, 0.3, is_signed=True),
    "shear_y": Scale(0.0, 0.3, is_signed=True),
    "translate_x": Scale(0.0, 0.45, is_signed=True),
    "translate_y": Scale(0.0, 0.45, is_signed=True),
}
FIXMATCH_SPACE: Space = {
    "auto_contrast": None,
    "equalize": None,
    "identity": None,
    "brightness": Scale(0.05, 0.9),
    "contrast": Scale(0.05, 0.9),
    "saturation": Scale(0.05, 0.9),
    "sharpness": Scale(0.05, 0.9),
    "posterize": Scale(4.0, 4.0, is_whole=True),
    "rotate": Scale(0.0, 30.0, is_signed=True, is_whole=True),
    "shear_x": Scale(0.0, 0.3, is_signed=True),
    "shear_y": Scale(0.0, 0.3, is_signed=True),
    "solarize": Scale(256.0, -256.0, is_whole=True),
    "translate_x": Scale(0.0, 0.3, is_signed=True),
    "translate_y": Scale(0.0, 0.3, is_signed=True),
}


def draw_timm_augment(
    size: int, generator: torch.Generator, *, num_steps: int, magnitude: float, magnitude_noise: float
) -> Steps:
    """Draw steps for each of size images, at levels normal about magnitude (of 10), cut off at 0 and 10."""
    noise = torch.randn(size, num_steps, generator=generator, device=generator.device)
    level = (magnitude + magnitude_noise * noise.double()).clamp(0, 10) / 10
    return _draw(TIMM_SPACE, level, generator)


def draw_fixmatch_augment(size: int, generator: torch.Generator, *, num_steps: int) -> Steps:
    """Draw steps for each of size images, at levels even over a tenth to nine tenths."""
    level = torch.randint(1, 10, (size, num_steps), generator=generator, device=generator.device)
    return _draw(FIXMATCH_SPACE, level.double() / 10, generator)


def _draw(space: Space, level: Tensor, generator: torch.Generator) -> Steps:
    def uniform() -> Tensor:
        return torch.rand(level.shape, generator=generator, device=generator.device)

    indices = [NOTHING if name == "identity" else OPERATIONS.index(name) for name in space]
    pool = torch.tensor(indices, device=generator.device)
    operation = pool[torch.randint(len(pool), level.shape, generator=generator, device=generator.device)]
    strength = strengths(space, operation, level, is_negative=uniform() < 0.5)
    return Steps(torch.where(uniform() < PROBABILITY, operation, NOTHING), strength)
