"""Sums over all programs of a kernel, without atomic additions: the same bits each time."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from proco.kernels.launch import launch

_PROGRAMS = 264  # that each sum a share: two for each multiprocessor of an H200
_ROWS, _COLUMNS = 512, 16  # of partials that a program adds at a time


@triton.jit
def _total(partials, out, rows, columns, row_block: tl.constexpr, column_block: tl.constexpr):
    column = tl.program_id(0) * column_block + tl.arange(0, column_block)
    sums = tl.zeros((row_block, column_block), tl.float32)
    for start in range(0, rows, row_block):
        row = start + tl.arange(0, row_block)
        inside = (row < rows)[:, None] & (column < columns)[None, :]
        sums += tl.load(partials + row[:, None] * columns + column[None, :], mask=inside, other=0.0)
    tl.store(out + column, tl.sum(sums, axis=0), mask=column < columns)


def total(partials: Tensor) -> Tensor:
    """Return the sum of the rows of partials (programs, ...) float32."""
    out = torch.empty_like(partials[0])
    rows, columns = len(partials), out.numel()
    launch(_total, (triton.cdiv(columns, _COLUMNS),), partials, out, rows, columns, row_block(rows), _COLUMNS)
    return out


def row_block(rows: int) -> int:
    """Return how many rows of partials to add at a time: all of them, up to a number."""
    return min(int(triton.next_power_of_2(rows)), _ROWS)


def shares(num_blocks: int) -> tuple[int, int]:
    """Return how many of the blocks each program takes, and the number of programs."""
    blocks_each = triton.cdiv(num_blocks, _PROGRAMS)
    return blocks_each, triton.cdiv(num_blocks, blocks_each)
