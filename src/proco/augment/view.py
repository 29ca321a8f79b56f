"""A view: what an image goes through before the network sees it, up to its normalisation."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from proco.augment.choices import Choices
from proco.augment.window import CentreWindow, Window
from proco.config import Choice
from proco.errors import ConfigError
from proco.registry import Registry


@dataclass(frozen=True, kw_only=True)
class View(Choice, ABC):
    """Base of the views, chosen by name in a recipe: `view: sim`, or `view: {name: sim, blur: 0.5}`.

    First the window is cut out of the image and resized; that is the image store's part. What comes after is drawn for
    many images at once, on the CPU so that it is the same on any device, and applied to any slice of them.
    """

    registry = Registry[type]("view")

    def __post_init__(self) -> None:
        """Let a window refuse its settings."""
        _ = self.window

    @property
    def window(self) -> Window:
        """The part of an image that is looked at; by default all of it, or the square in its middle."""
        return CentreWindow()

    @abstractmethod
    def draw(self, size: int, generator: torch.Generator) -> Choices:
        """Draw what size images, of any height and width, will undergo: tensors of size rows in nested NamedTuples."""

    @abstractmethod
    def apply(self, images: Tensor, choices: Any) -> Tensor:
        """Return views of images (N, C, H, W) uint8, C = 1 or 3, of the same shape; choices have N rows."""


def refuse_negative(**settings: float) -> None:
    """Raise an error that names the first setting below 0."""
    for name, value in settings.items():
        if value < 0:
            raise ConfigError(f"{name} must be 0, which turns it off, or more; got {value}.")
