"""What was drawn for many images, taken apart and moved: tensors with a row for each image, in nested NamedTuples."""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import torch
from torch import Tensor

Choices = tuple[Any, ...]
T = TypeVar("T", bound=Tensor | Choices)


def select(choices: T, index: slice | Tensor) -> T:
    """Return the choices of some of the images.

    >>> from proco.augment.window import Box
    >>> rows = torch.arange(4)
    >>> select(Box(rows, rows, rows, rows), slice(1, 3)).top
    tensor([1, 2])
    """
    return cast(T, _map(lambda tensor: tensor[index], choices))


def to_device(choices: T, device: torch.device) -> T:
    """Return the choices on another device."""
    # A copy to the CPU that is not waited for could be read before it is there.
    non_blocking = device.type != "cpu"
    return cast(T, _map(lambda tensor: tensor.to(device, non_blocking=non_blocking), choices))


def _map(change: Callable[[Tensor], Tensor], choices: Any) -> Any:
    if isinstance(choices, Tensor):
        return change(choices)
    return type(choices)(*(_map(change, part) for part in choices))
