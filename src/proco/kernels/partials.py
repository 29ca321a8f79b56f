"""Sums over all programs of a kernel, without atomic additions: the same bits each time."""

import torch
import triton
import triton.language as tl
from torch import Tensor

PROGRAMS = 256  # that each sum a share: about two a multiprocessor of an H200
_COLUMNS = 16


@triton.jit
def _total(partials, out, rows, columns, row_block: tl.constexpr, column_block: tl.constexpr):
    row = tl.arange(0, row_block)
    column = tl.program_id(0) * column_block + tl.arange(0, column_block)
    inside = (row < rows)[:, None] & (column < columns)[None, :]
    values = tl.load(partials + row[:, None] * columns + column[None, :], mask=inside, other=0.0)
    tl.store(out + column, tl.sum(values, axis=0), mask=column < columns)


def total(partials: Tensor) -> Tensor:
    """Return the sum of the rows of partials (programs, ...) float32."""
    out = torch.empty_like(partials[0])
    rows, columns = len(partials), out.numel()
    _total[(triton.cdiv(columns, _COLUMNS),)](partials, out, rows, columns, triton.next_power_of_2(rows), _COLUMNS)
    return out


def shares(num_blocks: int) -> tuple[int, int]:
    """Return how many of the blocks each program takes, and the number of programs."""
    blocks_each = triton.cdiv(num_blocks, PROGRAMS)
    return blocks_each, triton.cdiv(num_blocks, blocks_each)
