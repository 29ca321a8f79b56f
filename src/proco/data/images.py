"""Where pixels come from, in memory or in files: what gives windows of images, resized.

What happens to a view after that is the augment package's business.
"""

import hashlib
from collections.abc import Sequence
from typing import NamedTuple, Protocol, Self

import torch
from torch import Tensor

from proco.augment.window import Window


class Cut(NamedTuple):
    """What to cut out of each image of a batch: row i of randoms, (n, r), goes with the i-th image."""

    window: Window
    randoms: Tensor


class Images(Protocol):
    """A set of images that can be cut, on whatever they are kept."""

    @property
    def channels(self) -> int:
        """1 for grey images, 3 for RGB."""

    @property
    def common_size(self) -> tuple[int, int] | None:
        """Height and width, where all images have the same; None where they differ or are not known."""

    @property
    def are_slow(self) -> bool:
        """Whether cutting takes long enough to do it ahead, in another thread."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """What went wrong so far and was passed over, in sentences for the end of a run."""

    @property
    def fingerprint(self) -> bytes:
        """A few bytes that are others when the images or their order are.

        Of arrays they are by pixels, of files by names and sizes.
        """

    @property
    def identities(self) -> Tensor:
        """A number for each image, int64 (N,), by which it is known again in other data."""

    def __len__(self) -> int: ...

    def cut(self, positions: Tensor, cuts: Sequence[Cut], size: tuple[int, int], device: torch.device) -> list[Tensor]:
        """Return for each cut the windows of the images at positions (n,), resized: uint8 (n, C, *size) on device."""

    def subset(self, positions: Tensor) -> Self:
        """Return the images at positions (n,), in that order."""

    def to(self, device: torch.device) -> Self:
        """Return the same images kept on device, where they can be: files stay files."""


def identity(content: bytes | memoryview) -> int:
    """Return a number of 64 bits that stands for the content."""
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little", signed=True)
