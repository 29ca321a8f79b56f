"""From levels to strengths: a policy speaks of levels, the same for all operations."""

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from proco.augment.operations import OPERATIONS


class Scale(NamedTuple):
    """Strengths of an operation: `start` at level 0, `start + span` at level 1."""

    start: float
    span: float
    is_signed: bool = False  # the span has a random sign
    is_whole: bool = False  # of the span, parts of one are cut off


Space = Mapping[str, Scale | None]  # None: an operation without a strength


def strengths(space: Space, operation: Tensor, level: Tensor, is_negative: Tensor) -> Tensor:
    """Return the strength (N, S) float32 of each operation, an index into OPERATIONS, at its level in [0, 1]."""
    rows = [space.get(name) or Scale(0.0, 0.0) for name in OPERATIONS]
    table = torch.tensor(rows, dtype=torch.float64, device=operation.device)
    start, span, is_signed, is_whole = table[operation].unbind(-1)
    change = span * level
    change = torch.where(is_whole.bool(), change.trunc(), change)
    return (start + torch.where(is_signed.bool() & is_negative, -change, change)).float()
