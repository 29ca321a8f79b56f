"""3x3 convolution of few channels, its gradients included, as implicit matrix products in Triton.

Libraries are built for many channels: with 16 of them, as in the first stage of ResNet-32, their kernels take seven
times what moving the data takes. Here a program keeps a run of consecutive pixels, and for each of the three rows of
the window multiplies the (pixels, 4 C) matrix of the pixels from one to the left on, which lie side by side in memory,
with the (4 C, C') matrix of the weights; the fourth column is masked and there to make a power of two.

Images are (N, C, H, W) in channels-last memory, that is (P, C) with P = N H W; weights (C', C, 3, 3), channels last.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from proco.kernels.partials import shares, total

_TAPS = tl.constexpr(4)  # columns of the window, three and one that is masked


@triton.jit
def _window_row(images, pixel, row, column, delta, height: tl.constexpr, width: tl.constexpr, channels: tl.constexpr):
    """Return the pixels to the left, at and to the right of each pixel, delta rows below: (pixels, 4 channels)."""
    place = tl.arange(0, _TAPS * channels)
    tap = place // channels
    row_inside = (row + delta >= 0) & (row + delta < height)
    column = column[:, None] + tap[None, :] - 1
    inside = row_inside[:, None] & (column >= 0) & (column < width) & (tap < 3)[None, :]
    start = (pixel + delta * width - 1) * channels
    return tl.load(images + start[:, None] + place[None, :], mask=inside, other=0.0)


@triton.jit
def _weight_row(weight, window_row, in_channels: tl.constexpr, out_channels: tl.constexpr, transposed: tl.constexpr):
    """Return the weights of one row of the window, (4 in_channels, out_channels)."""
    place = tl.arange(0, _TAPS * in_channels)
    tap, channel = place // in_channels, place % in_channels
    out_channel = tl.arange(0, out_channels)
    if transposed:  # weight (in_channels, 3, 3, out_channels), from the last tap to the first
        start = (channel * 9 + (2 - window_row) * 3 + 2 - tap) * out_channels
        at = start[:, None] + out_channel[None, :]
    else:  # weight (out_channels, 3, 3, in_channels)
        start = (window_row * 3 + tap) * in_channels + channel
        at = start[:, None] + out_channel[None, :] * (9 * in_channels)
    return tl.load(weight + at, mask=(tap < 3)[:, None], other=0.0)


@triton.jit
def _convolve(
    images,
    weight,
    out,
    partials,
    num_pixels,
    blocks_each,
    height: tl.constexpr,
    width: tl.constexpr,
    in_channels: tl.constexpr,
    out_channels: tl.constexpr,
    transposed: tl.constexpr,
    block: tl.constexpr,
):
    """Write the convolution of some blocks of pixels.

    transposed: with the weights of the gradient of the images. If not, batch norm follows: the program's sums of values
    and squares are written too, to partials (programs, 2, out_channels).
    """
    kind = images.dtype.element_ty
    weight_above = _weight_row(weight, 0, in_channels, out_channels, transposed).to(kind)
    weight_level = _weight_row(weight, 1, in_channels, out_channels, transposed).to(kind)
    weight_below = _weight_row(weight, 2, in_channels, out_channels, transposed).to(kind)
    out_channel = tl.arange(0, out_channels)
    if not transposed:
        sums = tl.zeros((block, out_channels), tl.float32)
        squares = tl.zeros((block, out_channels), tl.float32)
    first = tl.program_id(0) * blocks_each
    for number in range(first, first + blocks_each):
        pixel = number * block + tl.arange(0, block)
        row = tl.where(pixel < num_pixels, pixel // width % height, -2)  # outside for every row of the window
        column = pixel % width
        values = _window_row(images, pixel, row, column, -1, height, width, in_channels)
        total = tl.dot(values, weight_above)
        values = _window_row(images, pixel, row, column, 0, height, width, in_channels)
        total = tl.dot(values, weight_level, total)
        values = _window_row(images, pixel, row, column, 1, height, width, in_channels)
        total = tl.dot(values, weight_below, total)
        rounded = total.to(out.dtype.element_ty)
        out_at = out + pixel[:, None] * out_channels + out_channel[None, :]
        tl.store(out_at, rounded, mask=(pixel < num_pixels)[:, None])
        if not transposed:  # over pixels only at the end
            sums += rounded.to(tl.float32)
            squares += rounded.to(tl.float32) * rounded.to(tl.float32)
    if not transposed:
        own = partials + tl.program_id(0) * (2 * out_channels) + out_channel
        tl.store(own, tl.sum(sums, axis=0))
        tl.store(own + out_channels, tl.sum(squares, axis=0))


@triton.jit
def _weight_gradient(
    images,
    gradient,
    partials,
    num_pixels,
    blocks_each,
    height: tl.constexpr,
    width: tl.constexpr,
    in_channels: tl.constexpr,
    out_channels: tl.constexpr,
    block: tl.constexpr,
):
    """Write a program's share of the weights' gradient: partials (programs, out_channels, 3, 3, in_channels)."""
    place = tl.arange(0, _TAPS * in_channels)
    out_channel = tl.arange(0, out_channels)
    above = tl.zeros((_TAPS * in_channels, out_channels), tl.float32)
    level = tl.zeros((_TAPS * in_channels, out_channels), tl.float32)
    below = tl.zeros((_TAPS * in_channels, out_channels), tl.float32)
    first = tl.program_id(0) * blocks_each
    for number in range(first, first + blocks_each):
        pixel = number * block + tl.arange(0, block)
        row = tl.where(pixel < num_pixels, pixel // width % height, -2)
        column = pixel % width
        gradient_at = gradient + pixel[:, None] * out_channels + out_channel[None, :]
        factors = tl.load(gradient_at, mask=(pixel < num_pixels)[:, None], other=0.0)
        values = _window_row(images, pixel, row, column, -1, height, width, in_channels)
        above = tl.dot(tl.trans(values), factors, above)
        values = _window_row(images, pixel, row, column, 0, height, width, in_channels)
        level = tl.dot(tl.trans(values), factors, level)
        values = _window_row(images, pixel, row, column, 1, height, width, in_channels)
        below = tl.dot(tl.trans(values), factors, below)
    row_size = 3 * in_channels
    own = partials + tl.program_id(0) * (out_channels * 3 * row_size)
    at = own + place[:, None] + out_channel[None, :] * (3 * row_size)
    written = (place < row_size)[:, None]
    tl.store(at, above, mask=written)
    tl.store(at + row_size, level, mask=written)
    tl.store(at + 2 * row_size, below, mask=written)


_BLOCK = 64  # pixels
# How many blocks are on their way to a program at a time, by channels: what was fastest on an H200.
_STAGES = {4: 1, 16: 3, 32: 1}
_GRADIENT_STAGES = {4: 3, 16: 3, 32: 3}


def convolution(images: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """Return the convolution, (N, C', H, W), and each program's sums of values and squares, (G, 2, C')."""
    return _run(images, weight, transposed=False)


def image_gradient(gradient: Tensor, weight: Tensor) -> Tensor:
    """Return the gradient of the images, (N, C, H, W), from that of the result, (N, C', H, W)."""
    return _run(gradient, weight, transposed=True)[0]


def _run(images: Tensor, weight: Tensor, *, transposed: bool) -> tuple[Tensor, Tensor]:
    count, in_channels, height, width = images.shape
    out_channels = weight.shape[1] if transposed else weight.shape[0]
    device = images.device
    shape = (count, out_channels, height, width)
    out = torch.empty(shape, dtype=images.dtype, device=device, memory_format=torch.channels_last)
    num_pixels = count * height * width
    blocks_each, programs = shares(triton.cdiv(num_pixels, _BLOCK))
    partials = torch.empty((0 if transposed else programs, 2, out_channels), dtype=torch.float32, device=device)
    _convolve[(programs,)](
        images,
        weight,
        out,
        partials,
        num_pixels,
        blocks_each,
        height,
        width,
        in_channels,
        out_channels,
        transposed,
        _BLOCK,
        num_stages=_STAGES[in_channels],
    )
    return out, partials


def weight_gradient(images: Tensor, gradient: Tensor) -> Tensor:
    """Return the gradient of the weights, (C', C, 3, 3) float32, channels last."""
    count, in_channels, height, width = images.shape
    out_channels = gradient.shape[1]
    num_pixels = count * height * width
    blocks_each, programs = shares(triton.cdiv(num_pixels, _BLOCK))
    partials = torch.empty((programs, out_channels, 3, 3, in_channels), dtype=torch.float32, device=images.device)
    _weight_gradient[(programs,)](
        images,
        gradient,
        partials,
        num_pixels,
        blocks_each,
        height,
        width,
        in_channels,
        out_channels,
        _BLOCK,
        num_stages=_GRADIENT_STAGES[in_channels],
    )
    return total(partials).permute(0, 3, 1, 2)
