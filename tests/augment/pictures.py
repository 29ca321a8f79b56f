"""Images for the tests, uint8 (N, C, H, W)."""

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import interpolate

from proco.data.bundled import FASHION_MNIST_LT


def noise(count: int = 40, channels: int = 3, height: int = 32, width: int = 32) -> Tensor:
    """Noise: a pixel taken from a wrong place is seen at once."""
    generator = torch.Generator().manual_seed(0)
    return torch.randint(256, (count, channels, height, width), dtype=torch.uint8, generator=generator)


def scenes(count: int = 60, channels: int = 3, height: int = 32, width: int = 32) -> Tensor:
    """Smooth colours with some noise, dark ones and bright ones, like photographs."""
    generator = torch.Generator().manual_seed(channels)
    coarse = torch.rand(count, channels, 5, 5, generator=generator)
    smooth = interpolate(coarse, size=(height, width), mode="bicubic").clamp(0, 1)
    light = torch.rand(count, 1, 1, 1, generator=generator)
    grain = 0.05 * torch.rand(count, channels, height, width, generator=generator)
    return ((smooth * light + grain).clamp(0, 1) * 255).to(torch.uint8)


def clothes(count: int = 60) -> Tensor:
    """Real photographs, grey and 28 x 28: the Fashion-MNIST that ships with the package."""
    with np.load(FASHION_MNIST_LT) as file:
        return torch.from_numpy(file["test_images"][:count])[:, None]


def edge_cases(channels: int = 3, side: int = 32) -> Tensor:
    """Black, white, grey, and an image of two values."""
    flat = torch.tensor([0.0, 1.0, 0.4])[:, None, None, None].expand(3, channels, side, side)
    halves = (torch.arange(side) < side // 3).float().expand(1, channels, side, side)
    return (torch.cat([flat, halves]) * 255).to(torch.uint8)
