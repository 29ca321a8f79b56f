"""From grey levels to what the network sees: the size of the images and their normalisation."""

import torch
from torch import Tensor

from proco.data.array_images import ArrayImages
from proco.data.images import Images
from proco.data.prepare import DataConfig
from proco.errors import ConfigError
from proco.models.normalise import Normalise

_FILE_SIZE = 224
_IMAGENET_MEAN, _IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def image_size(config: DataConfig, images: Images) -> tuple[int, int]:
    """Return height and width of what the network sees: a square, by default as large as arrays hold one."""
    side = config.size or min(images.common_size or (_FILE_SIZE,))
    return side, side


def normalisation(config: DataConfig, images: Images) -> Normalise:
    """Return the normalisation of the settings; by default that of the arrays themselves, or ImageNet's for files."""
    if (config.mean is None) != (config.std is None):
        raise ConfigError("data.mean and data.std go together; only one was given.")
    if config.mean is not None and config.std is not None:
        for name, values in (("mean", config.mean), ("std", config.std)):
            if len(values) != images.channels:
                raise ConfigError(f"data.{name} needs {images.channels} numbers, one per channel; got {len(values)}.")
        return Normalise(torch.tensor(config.mean), torch.tensor(config.std))
    if isinstance(images, ArrayImages):
        return Normalise(*_moments(images.pixels))
    return Normalise(torch.tensor(_IMAGENET_MEAN), torch.tensor(_IMAGENET_STD))


def _moments(pixels: Tensor) -> tuple[Tensor, Tensor]:
    """Return mean and standard deviation of each channel of (N, C, H, W), in [0, 1], from counts of levels: exact."""
    counts = torch.stack([torch.bincount(channel, minlength=256) for channel in pixels.transpose(0, 1).flatten(1)])
    share = counts.double() / counts.sum(dim=1, keepdim=True)
    level = torch.arange(256, device=pixels.device) / 255
    mean = (share * level).sum(dim=1)
    variance = (share * level.square()).sum(dim=1) - mean.square()
    return mean, variance.clamp_min(1e-8).sqrt()  # a channel of one grey level is not divided by 0
