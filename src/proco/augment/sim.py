"""SimAugment, the view of contrastive learning (Chen et al., ICML 2020) as the official ProCo code makes it."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from proco.augment import geometric
from proco.augment.colour_jitter import draw_colour_jitter
from proco.augment.operations import NOTHING, OPERATIONS, Steps, apply_steps, join
from proco.augment.view import View
from proco.augment.weak import draw_flips
from proco.augment.window import RandomWindow
from proco.errors import ConfigError

_JITTER = {"brightness": 0.4, "contrast": 0.4, "saturation": 0.4, "hue": 0.1}
_SIGMA = (0.1, 2.0)  # of the blur, in pixels


class SimChoices(NamedTuple):
    """What each image undergoes, in this order."""

    is_flipped: Tensor  # (N,)
    steps: Steps


@View.registry.register("sim")
@dataclass(frozen=True, kw_only=True)
class Sim(View):
    """A random window, flip, colour jitter with probability 0.8, grey with probability 0.2, and perhaps blur."""

    scale: tuple[float, ...] = (0.08, 1.0)
    """Least and largest share of the image's area that the window covers."""
    blur: float = 0.0
    """Probability of a Gaussian blur; SimCLR has 0.5 for large images."""
    flip: bool = True
    """Mirror images left to right; not for digits or text."""

    def __post_init__(self) -> None:
        """Refuse probabilities outside of 0 to 1."""
        super().__post_init__()
        if not 0 <= self.blur <= 1:
            raise ConfigError(f"blur must be a probability, from 0 to 1; got {self.blur}.")

    @property
    def window(self) -> RandomWindow:
        """A box of random size and place."""
        return RandomWindow(scale=self.scale)

    def draw(self, size: int, generator: torch.Generator) -> SimChoices:
        """Draw flips, jitters, greys and blurs."""

        def sometimes(name: str, probability: float, low: float = 0.0, high: float = 0.0) -> Steps:
            taken, strength = torch.rand(2, size, 1, generator=generator, device=generator.device)
            operation = torch.where(taken < probability, OPERATIONS.index(name), NOTHING)
            return Steps(operation, low + (high - low) * strength)

        return SimChoices(
            is_flipped=draw_flips(size, generator, flip=self.flip),
            steps=join(
                draw_colour_jitter(size, generator, reach=_JITTER, probability=0.8),
                sometimes("grayscale", 0.2),
                sometimes("blur", self.blur, *_SIGMA),
            ),
        )

    def apply(self, images: Tensor, choices: SimChoices) -> Tensor:
        """Apply all of it."""
        return apply_steps(geometric.flip(images, choices.is_flipped), choices.steps)
