"""3x3 convolution of few channels, its gradients included, as implicit matrix products in Triton.

Libraries are built for many channels: with 16 of them, as in the first stage of ResNet-32, their kernels take seven
times what moving the data takes. Here two neighbouring pixels of a row are computed together. All that a row of the
window needs for them, the pixels from one to the left to one to the right, lies side by side in memory: four pixels,
4 C numbers. So a program takes many pairs of columns, of as many images as it needs, and goes down their rows. It reads
each row once, as a (pairs, 4 C) matrix, and multiplies it with three (4 C, 2 C') matrices of weights: the row is the
lowest in the window of the row above it, which is finished thereby, the middle of its own, the highest of the next. In
such a matrix each tap stands once for the left pixel and, a pixel further on, once for the right. The gradient of the
images is the same thing with the taps turned round. For that of the weights each row of the gradient, read as above,
is multiplied with three rows of the images.

Images are (N, C, H, W), W even, in channels-last memory: N W / 2 pairs of columns. Weights are (C', C, 3, 3), channels
last.
"""

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from proco.kernels.launch import launch
from proco.kernels.partials import row_block


@triton.jit
def _places(pair, num_pairs, height: tl.constexpr, width: tl.constexpr, channels: tl.constexpr):
    """Return where the two pixels of each pair are in the highest row, (pairs, 2 channels), and which exist."""
    image, column = 2 * pair // width, 2 * pair % width
    start = (image * (height * width) + column) * channels
    return start[:, None] + tl.arange(0, 2 * channels)[None, :], (pair < num_pairs)[:, None]


@triton.jit
def _window_places(pair, num_pairs, height: tl.constexpr, width: tl.constexpr, channels: tl.constexpr):
    """Return where the four pixels around each pair are in the highest row, (pairs, 4 channels), and which exist."""
    image, column = 2 * pair // width, 2 * pair % width
    place = tl.arange(0, 4 * channels)
    place_column = column[:, None] + (place // channels)[None, :] - 1
    start = (image * (height * width) + column - 1) * channels
    inside = (pair < num_pairs)[:, None] & (place_column >= 0) & (place_column < width)
    return start[:, None] + place[None, :], inside


@triton.jit
def _weight_row(weight, window_row, in_channels: tl.constexpr, out_channels: tl.constexpr, transposed: tl.constexpr):
    """Return the weights of one row of the window, (4 in_channels, 2 out_channels)."""
    place, out_place = tl.arange(0, 4 * in_channels), tl.arange(0, 2 * out_channels)
    channel, out_channel = (place % in_channels)[:, None], (out_place % out_channels)[None, :]
    tap = (place // in_channels)[:, None] - (out_place // out_channels)[None, :]
    if transposed:  # weight (in_channels, 3, 3, out_channels), from the last tap to the first
        at = (channel * 9 + (2 - window_row) * 3 + 2 - tap) * out_channels + out_channel
    else:  # weight (out_channels, 3, 3, in_channels)
        at = (out_channel * 9 + window_row * 3 + tap) * in_channels + channel
    return tl.load(weight + at, mask=(tap >= 0) & (tap < 3), other=0.0)


@triton.jit
def _convolve(
    images,
    weight,
    addend,
    out,
    partials,
    num_pairs,
    rows_each,
    height: tl.constexpr,
    width: tl.constexpr,
    in_channels: tl.constexpr,
    out_channels: tl.constexpr,
    transposed: tl.constexpr,
    has_addend: tl.constexpr,
    block: tl.constexpr,
):
    """Write some rows of the convolution of a block of pairs.

    transposed: with the weights of the gradient of the images, plus the addend. If not, batch norm follows: the
    program's sums of values and squares are written too, to partials (programs, 2, out_channels).
    """
    kind = images.dtype.element_ty
    weight_above = _weight_row(weight, 0, in_channels, out_channels, transposed).to(kind)
    weight_level = _weight_row(weight, 1, in_channels, out_channels, transposed).to(kind)
    weight_below = _weight_row(weight, 2, in_channels, out_channels, transposed).to(kind)
    pair = tl.program_id(0) * block + tl.arange(0, block)
    window_at, window_inside = _window_places(pair, num_pairs, height, width, in_channels)
    out_at, out_inside = _places(pair, num_pairs, height, width, out_channels)
    if not transposed:
        sums = tl.zeros((block, 2 * out_channels), tl.float32)
        squares = tl.zeros((block, 2 * out_channels), tl.float32)
    begun = tl.zeros((block, 2 * out_channels), tl.float32)  # of the row below the one at hand
    half_done = tl.zeros((block, 2 * out_channels), tl.float32)  # of its own row
    first = tl.program_id(1) * rows_each
    last = tl.minimum(first + rows_each, height)
    for row in range(first - 1, last + 1):
        inside = window_inside & (row >= 0) & (row < height)
        values = tl.load(images + window_at + row * (width * in_channels), mask=inside, other=0.0)
        result = tl.dot(values, weight_below, half_done)
        half_done = tl.dot(values, weight_level, begun)
        begun = tl.dot(values, weight_above)
        at = out_at + (row - 1) * (width * out_channels)
        finished = out_inside & (row > first)
        if has_addend:
            result += tl.load(addend + at, mask=finished, other=0.0).to(tl.float32)
        rounded = result.to(kind)
        tl.store(out + at, rounded, mask=finished)
        if not transposed:  # over pixels only at the end
            counted = tl.where(finished, rounded.to(tl.float32), 0.0)
            sums += counted
            squares += counted * counted
    if not transposed:
        own = partials + _program() * (2 * out_channels) + tl.arange(0, out_channels)
        tl.store(own, tl.sum(tl.reshape(sums, (2 * block, out_channels)), axis=0))
        tl.store(own + out_channels, tl.sum(tl.reshape(squares, (2 * block, out_channels)), axis=0))


@triton.jit
def _weight_gradient(
    gradient,
    images,
    partials,
    num_pairs,
    rows_each,
    height: tl.constexpr,
    width: tl.constexpr,
    channels: tl.constexpr,
    out_channels: tl.constexpr,
    block: tl.constexpr,
):
    """Write a program's part of the gradient of the weights.

    That is, products of the four pixels of the gradient around a pair and the two of the images: partials (programs, 3,
    4, out_channels, 2, channels).
    """
    above = tl.zeros((4 * out_channels, 2 * channels), tl.float32)
    level = tl.zeros((4 * out_channels, 2 * channels), tl.float32)
    below = tl.zeros((4 * out_channels, 2 * channels), tl.float32)
    pair = tl.program_id(0) * block + tl.arange(0, block)
    window_at, window_inside = _window_places(pair, num_pairs, height, width, out_channels)
    image_at, image_inside = _places(pair, num_pairs, height, width, channels)
    first = tl.program_id(1) * rows_each
    last = tl.minimum(first + rows_each, height)
    for row in range(first - 1, last + 1):
        inside = window_inside & (row >= 0) & (row < height)
        values = tl.trans(tl.load(gradient + window_at + row * (width * out_channels), mask=inside, other=0.0))
        # Read three times: a row carried over to the next turn would keep Triton from fetching ahead.
        at = images + image_at + row * (width * channels)
        following = tl.load(at + width * channels, mask=image_inside & (row + 1 < last), other=0.0)
        own = tl.load(at, mask=image_inside & (row >= first) & (row < last), other=0.0)
        previous = tl.load(at - width * channels, mask=image_inside & (row > first), other=0.0)
        above = tl.dot(values, following, above)  # the row is above the following one
        level = tl.dot(values, own, level)
        below = tl.dot(values, previous, below)
    size = 8 * channels * out_channels
    place, image_place = tl.arange(0, 4 * out_channels), tl.arange(0, 2 * channels)
    partials_at = partials + _program() * (3 * size) + place[:, None] * (2 * channels) + image_place[None, :]
    tl.store(partials_at, above)
    tl.store(partials_at + size, level)
    tl.store(partials_at + 2 * size, below)


@triton.jit
def _program():
    return (tl.program_id(1) * tl.num_programs(0) + tl.program_id(0)).to(tl.int64)


@triton.jit
def _sum_taps(
    partials,
    out,
    rows,
    channels: tl.constexpr,
    out_channels: tl.constexpr,
    row_block: tl.constexpr,
    column_block: tl.constexpr,
):
    """Write the sums over programs, of the left pixel and the right, as (out_channels, 3, 3, channels)."""
    column = tl.program_id(0) * column_block + tl.arange(0, column_block)  # of (3, 3, out_channels, channels)
    out_channel, channel = column // channels % out_channels, column % channels
    tap_row, tap_column = column // (3 * channels * out_channels), column // (channels * out_channels) % 3
    # A tap to the left multiplies a pixel of the images with one of the gradient to the right, one row of the window.
    left = (((2 - tap_row) * 4 + 2 - tap_column) * out_channels + out_channel) * (2 * channels) + channel
    right = left + (2 * out_channels + 1) * channels  # one pixel further on
    sums = tl.zeros((row_block, column_block), tl.float32)
    for start in range(0, rows, row_block):
        row = start + tl.arange(0, row_block)
        inside = (row < rows)[:, None]
        own = partials + row[:, None].to(tl.int64) * (24 * channels * out_channels)
        sums += tl.load(own + left[None, :], mask=inside, other=0.0)
        sums += tl.load(own + right[None, :], mask=inside, other=0.0)
    at = (out_channel * 9 + tap_row * 3 + tap_column) * channels + channel
    tl.store(out + at, tl.sum(sums, axis=0))


class _Plan(NamedTuple):
    """How the work is divided."""

    block: int  # pairs of a program
    programs: int  # about so many, where there are as many rows
    stages: int  # rows on their way to a program at a time
    warps: int = 4


# What was fastest on an H200, by the channels of what is read; of the weights' gradient by those of the images.
_FORWARD = {4: _Plan(64, 384, 4), 16: _Plan(64, 384, 3), 32: _Plan(64, 192, 3)}
_IMAGE_GRADIENT = {16: _Plan(64, 384, 4), 32: _Plan(32, 384, 3)}
_WEIGHT_GRADIENT = {4: _Plan(64, 384, 2), 16: _Plan(64, 192, 4), 32: _Plan(64, 96, 3, 8)}
_COLUMNS = 16  # of partial sums that a program adds


def convolution(images: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """Return the convolution, (N, C', H, W), and each program's sums of values and squares, (G, 2, C')."""
    return _run(images, weight, None, _FORWARD, transposed=False)


def image_gradient(gradient: Tensor, weight: Tensor, addend: Tensor | None = None) -> Tensor:
    """Return the gradient of the images, (N, C, H, W), from that of the result, (N, C', H, W); plus the addend."""
    return _run(gradient, weight, addend, _IMAGE_GRADIENT, transposed=True)[0]


def _run(
    images: Tensor, weight: Tensor, addend: Tensor | None, plans: dict[int, _Plan], *, transposed: bool
) -> tuple[Tensor, Tensor]:
    count, in_channels, height, width = images.shape
    out_channels = weight.shape[1] if transposed else weight.shape[0]
    device, plan = images.device, plans[in_channels]
    shape = (count, out_channels, height, width)
    out = torch.empty(shape, dtype=images.dtype, device=device, memory_format=torch.channels_last)
    grid, rows_each = _shares(images, plan)
    programs = 0 if transposed else grid[0] * grid[1]
    partials = torch.empty((programs, 2, out_channels), dtype=torch.float32, device=device)
    launch(
        _convolve,
        grid,
        images,
        weight,
        out if addend is None else addend,
        out,
        partials,
        count * width // 2,
        rows_each,
        height,
        width,
        in_channels,
        out_channels,
        transposed,
        addend is not None,
        plan.block,
        num_stages=plan.stages,
        num_warps=plan.warps,
    )
    return out, partials


def weight_gradient(gradient: Tensor, images: Tensor) -> Tensor:
    """Return the gradient of the weights, (C', C, 3, 3) float32, channels last; gradient: of the result."""
    count, channels, height, width = images.shape
    out_channels, plan = gradient.shape[1], _WEIGHT_GRADIENT[channels]
    grid, rows_each = _shares(images, plan)
    rows = grid[0] * grid[1]
    partials = torch.empty((rows, 3, 4, out_channels, 2, channels), dtype=torch.float32, device=images.device)
    launch(
        _weight_gradient,
        grid,
        gradient,
        images,
        partials,
        count * width // 2,
        rows_each,
        height,
        width,
        channels,
        out_channels,
        plan.block,
        num_stages=plan.stages,
        num_warps=plan.warps,
    )
    out = torch.empty((out_channels, 3, 3, channels), dtype=torch.float32, device=images.device)
    launch(
        _sum_taps, (out.numel() // _COLUMNS,), partials, out, rows, channels, out_channels, row_block(rows), _COLUMNS
    )
    return out.permute(0, 3, 1, 2)


def _shares(images: Tensor, plan: _Plan) -> tuple[tuple[int, int], int]:
    """Return the grid, blocks of pairs by shares of rows, and how many rows a share has."""
    count, _, height, width = images.shape
    blocks = triton.cdiv(count * width // 2, plan.block)
    rows_each = triton.cdiv(height, min(max(plan.programs // blocks, 1), height))
    return (blocks, triton.cdiv(height, rows_each)), rows_each
