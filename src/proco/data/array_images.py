"""Images in one array, in memory or on a device."""

import hashlib
from collections.abc import Sequence

import torch
from torch import Tensor

from proco.augment.choices import send
from proco.augment.geometric import resize_scratch_bytes, resized_crop
from proco.augment.window import Window
from proco.data.images import Cut, identity
from proco.errors import DataError

# Memory that cutting may take beside its result.
_SCRATCH_BYTES = 2**28


class ArrayImages:
    """Images of one size, uint8 (N, C, H, W), kept on one device.

    On a GPU nothing waits for the host: only shapes and windows decide what is done, never pixels or boxes there.
    """

    are_slow = False

    def __init__(self, pixels: Tensor) -> None:
        if pixels.dim() != 4 or pixels.dtype != torch.uint8:
            raise DataError(
                f"images must be uint8 of shape (N, C, H, W); got {pixels.dtype} of shape {tuple(pixels.shape)}."
            )
        self.pixels = pixels

    @property
    def channels(self) -> int:
        """1 for grey images, 3 for RGB."""
        return self.pixels.shape[1]

    @property
    def common_size(self) -> tuple[int, int]:
        """Height and width of every image."""
        return self.pixels.shape[2], self.pixels.shape[3]

    @property
    def warnings(self) -> tuple[str, ...]:
        """Nothing can go wrong with an array."""
        return ()

    @property
    def fingerprint(self) -> bytes:
        """The SHA-256 of the pixels."""
        return hashlib.sha256(self.pixels.cpu().contiguous().numpy().data).digest()

    @property
    def identities(self) -> Tensor:
        """A number for each image, int64 (N,), of its pixels."""
        pixels = self.pixels.cpu().contiguous().numpy()
        return torch.tensor([identity(image.data) for image in pixels], dtype=torch.int64)

    def __len__(self) -> int:
        return len(self.pixels)

    def cut(self, positions: Tensor, cuts: Sequence[Cut], size: tuple[int, int], device: torch.device) -> list[Tensor]:
        """Return for each cut the windows of the images at positions (n,), resized: uint8 (n, C, *size) on device.

        A window without randomness that has the size already is only indexed; such results may share their memory.
        """
        scratch = resize_scratch_bytes(torch.Size([len(positions), *self.pixels.shape[1:]]), size, device)
        rows = max(1, len(positions) * _SCRATCH_BYTES // max(scratch, _SCRATCH_BYTES))
        pieces: list[list[Tensor]] = [[] for _ in cuts]
        randoms = [torch.split(cut.randoms, rows) for cut in cuts]
        for number, chunk in enumerate(torch.split(positions, rows)):
            pixels = send(self.pixels[send(chunk, self.pixels.device)], device)
            for piece, cut, chunk_randoms in zip(pieces, cuts, randoms, strict=True):
                piece.append(_cut(pixels, cut.window, send(chunk_randoms[number], device), size))
        return [torch.cat(piece) if len(piece) > 1 else piece[0] for piece in pieces]

    def subset(self, positions: Tensor) -> "ArrayImages":
        """Return a copy of the images at positions (n,), in that order."""
        return ArrayImages(self.pixels[send(positions, self.pixels.device)])

    def to(self, device: torch.device) -> "ArrayImages":
        """Return the same images kept on device."""
        return ArrayImages(self.pixels.to(device))


def _cut(pixels: Tensor, window: Window, randoms: Tensor, size: tuple[int, int]) -> Tensor:
    """Cut the window out of each of pixels, (n, C, H, W)."""
    height, width = pixels.shape[2:]
    if randoms.shape[1] == 0:
        # Nothing is random, so all images have the box of the first. It is computed on the CPU, where it can be looked
        # at without waiting for the device.
        top, left, box_height, box_width = map(int, window.boxes(torch.empty(1, 0), height, width))
        if (box_height, box_width) == size:
            return pixels[:, :, top : top + box_height, left : left + box_width]
    return resized_crop(pixels, *window.boxes(randoms, height, width), size)
