"""A blend: a view shows another image beside its own, and then two classes."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from torch import Generator, Tensor

from proco.augment.choices import Choices
from proco.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class Blend(ABC):
    """Which images get another one, which one that is, and how both are shown."""

    probability: float = 1.0
    """That an image gets another one; 0 for never."""
    sampler: str = "instance"
    """How the other images are drawn."""

    def __post_init__(self) -> None:
        """Refuse probabilities outside of 0 to 1."""
        if not 0 <= self.probability <= 1:
            raise ConfigError(
                f"{type(self).__name__.lower()}.probability lies between 0 and 1; got {self.probability:g}."
            )

    @abstractmethod
    def draw(self, size: int, generator: Generator) -> Choices:
        """Draw how much of each of size images stays, and where: tensors of size rows in a NamedTuple."""

    @abstractmethod
    def apply(self, images: Tensor, others: Tensor, choices: Any) -> tuple[Tensor, Tensor]:
        """Return images with others in them, both (N, C, H, W) uint8, and the share (N,) of each that is its own."""
