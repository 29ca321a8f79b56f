"""3x3 convolution of few channels, its gradients included, as implicit matrix products in Triton.

Libraries are built for many channels: with 16 of them, as in the first stage of ResNet-32, their kernels take seven
times what moving the data takes. Here two neighbouring pixels of a row are computed together. All that a row of the
window needs for them, the pixels from one to the left to one to the right, lies side by side in memory: four pixels,
4 C numbers. So a program takes many pairs, and for each of the three rows of the window multiplies their (pairs, 4 C)
matrix with the (4 C, 2 C') matrix of the weights, in which each tap stands once for the left pixel and, a pixel further
on, once for the right.

Images are (N, C, H, W), W even, in channels-last memory: N H W / 2 pairs. Weights are (C', C, 3, 3), channels last.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from proco.kernels.partials import shares, total


@triton.jit
def _window_row(images, pair, row, column, delta, height: tl.constexpr, width: tl.constexpr, channels: tl.constexpr):
    """Return the four pixels around each pair, delta rows below it: (pairs, 4 channels); 0 outside of the image."""
    place = tl.arange(0, 4 * channels)
    place_column = column[:, None] + (place // channels)[None, :] - 1
    row_inside = (row + delta >= 0) & (row + delta < height)
    inside = row_inside[:, None] & (place_column >= 0) & (place_column < width)
    start = (2 * pair + delta * width - 1) * channels
    return tl.load(images + start[:, None] + place[None, :], mask=inside, other=0.0)


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
    out,
    partials,
    num_pairs,
    blocks_each,
    height: tl.constexpr,
    width: tl.constexpr,
    in_channels: tl.constexpr,
    out_channels: tl.constexpr,
    transposed: tl.constexpr,
    block: tl.constexpr,
):
    """Write the convolution of some blocks of pairs.

    transposed: with the weights of the gradient of the images. If not, batch norm follows: the program's sums of values
    and squares are written too, to partials (programs, 2, out_channels).
    """
    kind = images.dtype.element_ty
    weight_above = _weight_row(weight, 0, in_channels, out_channels, transposed).to(kind)
    weight_level = _weight_row(weight, 1, in_channels, out_channels, transposed).to(kind)
    weight_below = _weight_row(weight, 2, in_channels, out_channels, transposed).to(kind)
    out_place = tl.arange(0, 2 * out_channels)
    if not transposed:
        sums = tl.zeros((block, 2 * out_channels), tl.float32)
        squares = tl.zeros((block, 2 * out_channels), tl.float32)
    first = tl.program_id(0) * blocks_each
    for number in range(first, first + blocks_each):
        pair = number * block + tl.arange(0, block)
        row = tl.where(pair < num_pairs, 2 * pair // width % height, -2)  # outside for every row of the window
        column = 2 * pair % width
        values = _window_row(images, pair, row, column, -1, height, width, in_channels)
        result = tl.dot(values, weight_above)
        values = _window_row(images, pair, row, column, 0, height, width, in_channels)
        result = tl.dot(values, weight_level, result)
        values = _window_row(images, pair, row, column, 1, height, width, in_channels)
        result = tl.dot(values, weight_below, result)
        rounded = result.to(out.dtype.element_ty)
        out_at = out + pair[:, None] * (2 * out_channels) + out_place[None, :]
        tl.store(out_at, rounded, mask=(pair < num_pairs)[:, None])
        if not transposed:  # over pixels only at the end
            sums += rounded.to(tl.float32)
            squares += rounded.to(tl.float32) * rounded.to(tl.float32)
    if not transposed:
        own = partials + tl.program_id(0) * (2 * out_channels) + tl.arange(0, out_channels)
        tl.store(own, tl.sum(tl.reshape(sums, (2 * block, out_channels)), axis=0))
        tl.store(own + out_channels, tl.sum(tl.reshape(squares, (2 * block, out_channels)), axis=0))


@triton.jit
def _weight_gradient(
    images,
    gradient,
    partials,
    num_pairs,
    blocks_each,
    height: tl.constexpr,
    width: tl.constexpr,
    in_channels: tl.constexpr,
    out_channels: tl.constexpr,
    block: tl.constexpr,
):
    """Write a program's products of the four pixels and the two, (programs, 3, 4, in_channels, 2, out_channels)."""
    place, out_place = tl.arange(0, 4 * in_channels), tl.arange(0, 2 * out_channels)
    above = tl.zeros((4 * in_channels, 2 * out_channels), tl.float32)
    level = tl.zeros((4 * in_channels, 2 * out_channels), tl.float32)
    below = tl.zeros((4 * in_channels, 2 * out_channels), tl.float32)
    first = tl.program_id(0) * blocks_each
    for number in range(first, first + blocks_each):
        pair = number * block + tl.arange(0, block)
        row = tl.where(pair < num_pairs, 2 * pair // width % height, -2)
        column = 2 * pair % width
        gradient_at = gradient + pair[:, None] * (2 * out_channels) + out_place[None, :]
        factors = tl.load(gradient_at, mask=(pair < num_pairs)[:, None], other=0.0)
        values = _window_row(images, pair, row, column, -1, height, width, in_channels)
        above = tl.dot(tl.trans(values), factors, above)
        values = _window_row(images, pair, row, column, 0, height, width, in_channels)
        level = tl.dot(tl.trans(values), factors, level)
        values = _window_row(images, pair, row, column, 1, height, width, in_channels)
        below = tl.dot(tl.trans(values), factors, below)
    size = 8 * in_channels * out_channels
    at = partials + tl.program_id(0) * (3 * size) + place[:, None] * (2 * out_channels) + out_place[None, :]
    tl.store(at, above)
    tl.store(at + size, level)
    tl.store(at + 2 * size, below)


# By channels of what is read, what was fastest on an H200: how many blocks are on their way to a program at a time, and
# warps of a program.
_BLOCK = 64  # pairs
_STAGES = {4: 1, 16: 3, 32: 1}
_GRADIENT_STAGES = {4: 3, 16: 3, 32: 2}
_GRADIENT_WARPS = {4: 4, 16: 4, 32: 8}


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
    num_pairs = count * height * width // 2
    blocks_each, programs = shares(triton.cdiv(num_pairs, _BLOCK))
    partials = torch.empty((0 if transposed else programs, 2, out_channels), dtype=torch.float32, device=device)
    _convolve[(programs,)](
        images,
        weight,
        out,
        partials,
        num_pairs,
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
    num_pairs = count * height * width // 2
    blocks_each, programs = shares(triton.cdiv(num_pairs, _BLOCK))
    shape = (programs, 3, 4, in_channels, 2, out_channels)
    partials = torch.empty(shape, dtype=torch.float32, device=images.device)
    _weight_gradient[(programs,)](
        images,
        gradient,
        partials,
        num_pairs,
        blocks_each,
        height,
        width,
        in_channels,
        out_channels,
        _BLOCK,
        num_stages=_GRADIENT_STAGES[in_channels],
        num_warps=_GRADIENT_WARPS[in_channels],
    )
    products = total(partials)
    # A tap of the left pixel is one further on for the right. (3, 3, C, C') to (C', C, 3, 3):
    taps = products[:, :3, :, 0] + products[:, 1:, :, 1]
    return taps.permute(3, 2, 0, 1).contiguous(memory_format=torch.channels_last)
