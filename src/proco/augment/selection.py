"""Choose between images, and find those of a batch that chose the same."""

from typing import NamedTuple

import torch
from torch import Tensor


class Groups(NamedTuple):
    """N things sorted by a value that each of them has."""

    order: Tensor  # (N,): a sorted thing's place in the batch
    inverse: Tensor  # (N,): a batch's thing's place among the sorted
    sizes: list[int]  # how many have the value -1, 0, 1, ...


def group(values: Tensor, num_values: int) -> list[Groups]:
    """Sort by each column of values (N, S), whole numbers from -1 to num_values - 1.

    The device is waited for once, however many columns there are.

    >>> group(torch.tensor([[1], [-1], [0], [1]]), 2)
    [Groups(order=tensor([1, 2, 0, 3]), inverse=tensor([2, 0, 1, 3]), sizes=[1, 1, 2])]
    """
    columns = values.T.contiguous()
    order = columns.argsort(dim=1, stable=True)
    sizes = (columns[:, :, None] == torch.arange(-1, num_values, device=values.device)).sum(dim=1)
    return [Groups(*columns) for columns in zip(order, order.argsort(dim=1), sizes.tolist(), strict=True)]


def where(condition: Tensor, chosen: Tensor | int, otherwise: Tensor) -> Tensor:
    """Return torch.where(condition, chosen, otherwise) for uint8 values, by bits: on a CPU many times as fast."""
    bits = -condition.view(torch.uint8)  # 255 or 0
    return otherwise ^ ((otherwise ^ chosen) & bits)
