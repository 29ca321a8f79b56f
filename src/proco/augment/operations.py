"""Operations by name, so that each image of a batch can undergo its own: what every policy is made of.

An operation has one strength, in a unit of its own. A policy draws, for each image, a row of operations and strengths.
"""

from collections.abc import Callable
from functools import cache, partial
from typing import NamedTuple

import torch
from torch import Tensor

from proco.augment import geometric, photometric
from proco.augment.choices import send
from proco.augment.selection import group
from proco.kernels.availability import kernels_run_on

_MOVES = {
    "rotate": geometric.rotate,  # degrees
    "shear_x": geometric.shear_x,  # slope
    "shear_y": geometric.shear_y,
    "translate_x": geometric.translate_x,  # share of the width
    "translate_y": geometric.translate_y,  # share of the height
}
_WITH_STRENGTH = {
    "blur": photometric.blur,  # standard deviation in pixels
    "brightness": photometric.brightness,  # factor
    "contrast": photometric.contrast,
    "hue": photometric.hue,  # share of the circle
    "posterize": photometric.posterize,  # bits, rounded
    "saturation": photometric.saturation,
    "sharpness": photometric.sharpness,
    "solarize": photometric.solarize,  # threshold
    "solarize_add": photometric.solarize_add,  # grey levels
}
_WITHOUT_STRENGTH = {
    "auto_contrast": photometric.auto_contrast,
    "equalize": photometric.equalize,
    "grayscale": photometric.grayscale,
    "invert": photometric.invert,
}
OPERATIONS = (*_MOVES, *_WITH_STRENGTH, *_WITHOUT_STRENGTH)
NOTHING = -1
_NOT_IN_KERNEL = -2


class Steps(NamedTuple):
    """What each of N images undergoes, one step after the other: (N, S) each."""

    operation: Tensor  # index into OPERATIONS, or NOTHING
    strength: Tensor  # float32

    @property
    def stay_on_cpu(self) -> tuple[str, ...]:
        """The operations, by which the host sorts the images: it would have to wait for a GPU to tell."""
        return ("operation",)


class Moves(NamedTuple):
    """How moves read pixels."""

    fill: geometric.Fill = 0  # what lies outside
    sampling: geometric.Sampling = "nearest"  # of rotations and translations
    shear_sampling: geometric.Sampling = "nearest"
    by_whole_pixels: bool = True  # translations; what is beyond them is cut off


_NEAREST = Moves()


def join(*parts: Steps) -> Steps:
    """Return the steps of all parts, in their order."""
    return Steps(*(torch.cat(columns, dim=1) for columns in zip(*parts, strict=True)))


def apply_steps(images: Tensor, steps: Steps, moves: Moves = _NEAREST) -> Tensor:
    """Apply each image's steps to images (N, C, H, W) uint8.

    Changes of colour that are nothing else are one kernel where it serves. Otherwise each operation gets the images
    that chose it, all at once. Operations on the CPU are sorted there, and a GPU is not waited for.
    """
    changed_by_kernel = _by_kernel(images, steps)
    if changed_by_kernel is not None:
        return changed_by_kernel
    operations = [_nothing, *(_operation(name, images.shape, moves) for name in OPERATIONS)]
    for groups, strength in zip(group(steps.operation, len(OPERATIONS)), steps.strength.unbind(1), strict=True):
        order, inverse = send(groups.order, images.device), send(groups.inverse, images.device)
        sorted_images = torch.split(images.index_select(0, order), groups.sizes)
        sorted_strength = torch.split(strength[order], groups.sizes)
        changed = [
            operation(some, their_strength) if len(some) else some
            for operation, some, their_strength in zip(operations, sorted_images, sorted_strength, strict=True)
        ]
        images = torch.cat(changed).index_select(0, inverse)
    return images


def _by_kernel(images: Tensor, steps: Steps) -> Tensor | None:
    """Return what the kernel of colours makes of the images, or None where it does not serve or lacks an operation."""
    on_cpu = steps.operation.device.type == "cpu"  # elsewhere the host would wait to see them
    if not on_cpu or not kernels_run_on(images.device):
        return None
    from proco.kernels.colour import colour_steps, serves

    if not serves(images):
        return None
    codes = _kernel_codes().take(steps.operation)
    if (codes == _NOT_IN_KERNEL).any():
        return None
    return colour_steps(images, send(codes, images.device), send(steps.strength, images.device))


@cache
def _kernel_codes() -> Tensor:
    """Return the kernel's code of each operation and, at the end where NOTHING points, of none."""
    from proco.kernels.colour import CODES

    codes = [*(CODES.get(name, _NOT_IN_KERNEL) for name in OPERATIONS), NOTHING]
    return torch.tensor(codes, dtype=torch.int8, device="cpu")


def _nothing(images: Tensor, _: Tensor) -> Tensor:
    return images


def _operation(name: str, shape: torch.Size, moves: Moves) -> Callable[[Tensor, Tensor], Tensor]:
    """Return the operation of images and strengths in the unit given above."""
    if name in _WITHOUT_STRENGTH:
        return lambda images, _: _WITHOUT_STRENGTH[name](images)
    if name in _WITH_STRENGTH:
        return _WITH_STRENGTH[name]
    sampling = moves.shear_sampling if name in ("shear_x", "shear_y") else moves.sampling
    move = partial(_MOVES[name], fill=moves.fill, sampling=sampling)
    if name not in ("translate_x", "translate_y"):
        return move
    side = shape[3] if name == "translate_x" else shape[2]
    if moves.by_whole_pixels:
        return lambda images, share: move(images, (share * side).trunc())
    return lambda images, share: move(images, share * side)
