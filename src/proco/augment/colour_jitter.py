"""Colour jitter: brightness, contrast, saturation and hue changed a little, in random order."""

from collections.abc import Mapping

import torch
from torch import Tensor

from proco.augment.operations import NOTHING, OPERATIONS, Steps


def draw_colour_jitter(
    size: int, generator: torch.Generator, *, reach: Mapping[str, float], probability: float = 1.0
) -> Steps:
    """Draw a step for each operation in reach, in an order of its own for each of size images.

    Factors are uniform within reach of 1, shifts of the hue within reach of 0. With 1 - probability there is no step.
    """

    def uniform(*shape: int) -> Tensor:
        return torch.rand(*shape, generator=generator, device=generator.device)

    names = torch.tensor([OPERATIONS.index(name) for name in reach], device=generator.device)
    centre = torch.tensor([0.0 if name == "hue" else 1.0 for name in reach], device=generator.device)
    extent = torch.tensor(list(reach.values()), device=generator.device)
    strength = centre + extent * (2 * uniform(size, len(reach)) - 1)
    order = uniform(size, len(reach)).argsort(dim=1)
    is_jittered = uniform(size, 1) < probability
    return Steps(torch.where(is_jittered, names[order], NOTHING), strength.gather(1, order))
