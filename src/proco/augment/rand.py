"""The RandAugment view, which the official ProCo code gives to its classifier on ImageNet-LT and iNaturalist."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from proco.augment import geometric
from proco.augment.colour_jitter import draw_colour_jitter
from proco.augment.operations import Moves, Steps, apply_steps, join
from proco.augment.rand_augment import draw_timm_augment
from proco.augment.view import View, refuse_negative
from proco.augment.weak import draw_flips
from proco.augment.window import RandomWindow
from proco.errors import ConfigError

_JITTER = {"brightness": 0.4, "contrast": 0.4, "saturation": 0.4}
_MOVES = Moves(sampling="bilinear", shear_sampling="bilinear", by_whole_pixels=False)
_FILL = (124, 116, 104)  # the mean colour of ImageNet
_GREY_FILL = 115


class RandChoices(NamedTuple):
    """What each image undergoes, in this order."""

    is_flipped: Tensor  # (N,)
    steps: Steps


@View.registry.register("rand")
@dataclass(frozen=True, kw_only=True)
class Rand(View):
    """A random window, flip, colour jitter, and RandAugment as timm's `rand-n2-m10-mstd0.5`.

    timm moves pixels by bilinear or bicubic interpolation at random; here it is always bilinear.
    """

    scale: tuple[float, ...] = (0.08, 1.0)
    """Least and largest share of the image's area that the window covers."""
    flip: bool = True
    """Mirror images left to right; not for digits or text."""
    num_steps: int = 2
    """Operations drawn for each image, half of which are taken."""
    magnitude: float = 10.0
    """Mean level of the operations, from 0 to 10."""
    magnitude_noise: float = 0.5
    """Standard deviation of the level."""

    def __post_init__(self) -> None:
        """Refuse levels that are none."""
        super().__post_init__()
        refuse_negative(num_steps=self.num_steps, magnitude_noise=self.magnitude_noise)
        if not 0 <= self.magnitude <= 10:
            raise ConfigError(f"magnitude must be a level from 0 to 10; got {self.magnitude}.")

    @property
    def window(self) -> RandomWindow:
        """A box of random size and place."""
        return RandomWindow(scale=self.scale)

    def draw(self, size: int, generator: torch.Generator) -> RandChoices:
        """Draw flips, jitters and operations."""
        return RandChoices(
            is_flipped=draw_flips(size, generator, flip=self.flip),
            steps=join(
                draw_colour_jitter(size, generator, reach=_JITTER),
                draw_timm_augment(
                    size,
                    generator,
                    num_steps=self.num_steps,
                    magnitude=self.magnitude,
                    magnitude_noise=self.magnitude_noise,
                ),
            ),
        )

    def apply(self, images: Tensor, choices: RandChoices) -> Tensor:
        """Apply all of it."""
        fill = _FILL if images.shape[1] == len(_FILL) else _GREY_FILL
        views = geometric.flip(images, choices.is_flipped)
        return apply_steps(views, choices.steps, _MOVES._replace(fill=fill))
