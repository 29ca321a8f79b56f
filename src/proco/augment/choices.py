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
    """Return the choices on another device, but for fields that their NamedTuple names in `stay_on_cpu`."""
    if isinstance(choices, Tensor):
        return cast(T, send(choices, device))
    stay = getattr(choices, "stay_on_cpu", ())
    names = getattr(choices, "_fields", ())
    parts = (part if name in stay else to_device(part, device) for name, part in zip(names, choices, strict=True))
    return cast(T, type(choices)(*parts))


def send(tensor: Tensor, device: torch.device) -> Tensor:
    """Return the tensor on the device; the host does not wait for what a GPU has still to do before it arrives."""
    if device.type == "cuda" and tensor.device.type == "cpu":
        return tensor.pin_memory().to(device, non_blocking=True)  # from other memory it would wait all the same
    # A copy to the CPU that is not waited for could be read before it is there.
    return tensor.to(device, non_blocking=device.type != "cpu")


def _map(change: Callable[[Tensor], Tensor], choices: Any) -> Any:
    if isinstance(choices, Tensor):
        return change(choices)
    return type(choices)(*(_map(change, part) for part in choices))
