"""Batch norm, the addition of a shortcut and ReLU as one function in Triton, and its gradients.

    out = relu(scale z + shift + shortcut),   z = (x - mean) / sqrt(variance + eps)

Images are (N, C, H, W) in channels-last memory, that is (P, C). Two passes each: sums, then the result. Backward needs,
with d = gradient [out > 0], sum d and sum d z of each channel:

    gradient of x = scale / sqrt(variance + eps) (d - mean(d) - z mean(d z)).
"""

import torch
import triton
import triton.language as tl
from torch import Tensor, nn

from proco.kernels.launch import launch
from proco.kernels.partials import row_block, shares, total

# Of a block, by four warps; what was fastest on an H200.
_ELEMENTS = 8192
_SUMMED_ELEMENTS = 8192
_GRADIENT_ELEMENTS = 2048
_CHANNELS = 16  # of a program that finishes the sums


@triton.jit
def _sums(images, partials, num_pixels, blocks_each, channels: tl.constexpr, block: tl.constexpr):
    """Write a program's sums of values and squares: partials (programs, 2, channels)."""
    channel = tl.arange(0, channels)
    sums = tl.zeros((block, channels), tl.float32)
    squares = tl.zeros((block, channels), tl.float32)
    first = tl.program_id(0) * blocks_each
    for number in range(first, first + blocks_each):
        pixel = number * block + tl.arange(0, block)
        at = pixel[:, None] * channels + channel[None, :]
        values = tl.load(images + at, mask=(pixel < num_pixels)[:, None], other=0.0).to(tl.float32)
        sums += values
        squares += values * values
    own = partials + tl.program_id(0) * (2 * channels) + channel
    tl.store(own, tl.sum(sums, axis=0))
    tl.store(own + channels, tl.sum(squares, axis=0))


@triton.jit
def _finish(
    partials,
    statistics,
    running_mean,
    running_variance,
    num_batches,
    rows,
    num_pixels,
    momentum,
    channels: tl.constexpr,
    row_block: tl.constexpr,
    channel_block: tl.constexpr,
):
    """Write the mean and the variance, statistics (2, channels), and move the running ones along."""
    channel = tl.program_id(0) * channel_block + tl.arange(0, channel_block)
    sums = tl.zeros((row_block, channel_block), tl.float32)
    squares = tl.zeros((row_block, channel_block), tl.float32)
    for start in range(0, rows, row_block):
        row = start + tl.arange(0, row_block)
        at = partials + row[:, None] * (2 * channels) + channel[None, :]
        inside = (row < rows)[:, None]
        sums += tl.load(at, mask=inside, other=0.0)
        squares += tl.load(at + channels, mask=inside, other=0.0)
    mean = tl.sum(sums, axis=0) / num_pixels
    square = tl.sum(squares, axis=0) / num_pixels
    # Digits are lost where the mean is many deviations from 0, but half precision has lost them by then.
    variance = tl.maximum(square - mean * mean, 0.0, propagate_nan=tl.PropagateNan.ALL)
    tl.store(statistics + channel, mean)
    tl.store(statistics + channels + channel, variance)
    unbiased = variance * (num_pixels / (num_pixels - 1.0))
    old_mean, old_variance = tl.load(running_mean + channel), tl.load(running_variance + channel)
    tl.store(running_mean + channel, old_mean + momentum * (mean - old_mean))
    tl.store(running_variance + channel, old_variance + momentum * (unbiased - old_variance))
    if tl.program_id(0) == 0:
        tl.store(num_batches, tl.load(num_batches) + 1)


@triton.jit
def _standardised(images, at, inside, mean, variance, channel, eps):
    """Return z and one over the deviation."""
    inverse = tl.rsqrt(tl.load(variance + channel) + eps)
    values = tl.load(images + at, mask=inside, other=0.0).to(tl.float32)
    return (values - tl.load(mean + channel)[None, :]) * inverse[None, :], inverse


@triton.jit
def _apply(
    images,
    shortcut,
    mean,
    variance,
    scale,
    shift,
    out,
    signs,
    num_pixels,
    eps,
    has_shortcut: tl.constexpr,
    keeps_signs: tl.constexpr,
    channels: tl.constexpr,
    block: tl.constexpr,
):
    """Write the result of a block, and where it is positive, a bit each: signs (pixels, channels / 8)."""
    channel = tl.arange(0, channels)
    pixel = tl.program_id(0) * block + tl.arange(0, block)
    inside = (pixel < num_pixels)[:, None]
    at = pixel[:, None] * channels + channel[None, :]
    standard, _ = _standardised(images, at, inside, mean, variance, channel, eps)
    result = standard * tl.load(scale + channel)[None, :] + tl.load(shift + channel)[None, :]
    if has_shortcut:
        result += tl.load(shortcut + at, mask=inside, other=0.0).to(tl.float32)
    # Without asking for it, a GPU's maximum of NaN and 0 is 0, and a diverged run would go on unnoticed.
    rectified = tl.maximum(result, 0.0, propagate_nan=tl.PropagateNan.ALL)
    tl.store(out + at, rectified.to(out.dtype.element_ty), mask=inside)
    if keeps_signs:
        bits = tl.reshape((result > 0).to(tl.int32), (block, channels // 8, 8)) << tl.arange(0, 8)[None, None, :]
        tl.store(signs + _byte_places(pixel, channels), tl.sum(bits, axis=2).to(tl.uint8), mask=inside)


@triton.jit
def _byte_places(pixel, channels: tl.constexpr):
    return pixel[:, None] * (channels // 8) + tl.arange(0, channels // 8)[None, :]


@triton.jit
def _gradient_behind_relu(
    gradient,
    signs,
    pixel,
    at,
    inside,
    standard,
    scale,
    shift,
    channel,
    has_shortcut: tl.constexpr,
    channels: tl.constexpr,
    block: tl.constexpr,
):
    """Return d, the gradient where the result was positive."""
    upstream = tl.load(gradient + at, mask=inside, other=0.0).to(tl.float32)
    if has_shortcut:
        signs_here = tl.load(signs + _byte_places(pixel, channels), mask=inside, other=0).to(tl.int32)
        positive = tl.reshape((signs_here[:, :, None] >> tl.arange(0, 8)[None, None, :]) & 1, (block, channels)) != 0
    else:  # computed again instead of read
        positive = standard * tl.load(scale + channel)[None, :] + tl.load(shift + channel)[None, :] > 0
    return tl.where(positive, upstream, 0.0)


@triton.jit
def _gradient_sums(
    images,
    signs,
    gradient,
    mean,
    variance,
    scale,
    shift,
    partials,
    num_pixels,
    blocks_each,
    eps,
    has_shortcut: tl.constexpr,
    channels: tl.constexpr,
    block: tl.constexpr,
):
    """Write a program's sums of d and d z: partials (programs, 2, channels)."""
    channel = tl.arange(0, channels)
    sums = tl.zeros((block, channels), tl.float32)
    products = tl.zeros((block, channels), tl.float32)
    first = tl.program_id(0) * blocks_each
    for number in range(first, first + blocks_each):
        pixel = number * block + tl.arange(0, block)
        inside = (pixel < num_pixels)[:, None]
        at = pixel[:, None] * channels + channel[None, :]
        standard, _ = _standardised(images, at, inside, mean, variance, channel, eps)
        d = _gradient_behind_relu(
            gradient, signs, pixel, at, inside, standard, scale, shift, channel, has_shortcut, channels, block
        )
        sums += d  # over pixels only at the end
        products += d * standard
    own = partials + tl.program_id(0) * (2 * channels) + channel
    tl.store(own, tl.sum(sums, axis=0))
    tl.store(own + channels, tl.sum(products, axis=0))


@triton.jit
def _gradient_apply(
    images,
    signs,
    gradient,
    mean,
    variance,
    sums,
    scale,
    shift,
    of_images,
    of_shortcut,
    num_pixels,
    eps,
    has_shortcut: tl.constexpr,
    channels: tl.constexpr,
    block: tl.constexpr,
):
    """Write the gradients of the images and of the shortcut."""
    channel = tl.arange(0, channels)
    pixel = tl.program_id(0) * block + tl.arange(0, block)
    inside = (pixel < num_pixels)[:, None]
    at = pixel[:, None] * channels + channel[None, :]
    standard, inverse = _standardised(images, at, inside, mean, variance, channel, eps)
    d = _gradient_behind_relu(
        gradient, signs, pixel, at, inside, standard, scale, shift, channel, has_shortcut, channels, block
    )
    if has_shortcut:
        tl.store(of_shortcut + at, d.to(of_shortcut.dtype.element_ty), mask=inside)
    mean_d = tl.load(sums + channel) / num_pixels
    mean_dz = tl.load(sums + channels + channel) / num_pixels
    factor = tl.load(scale + channel) * inverse
    result = factor[None, :] * (d - mean_d[None, :] - standard * mean_dz[None, :])
    tl.store(of_images + at, result.to(of_images.dtype.element_ty), mask=inside)


def sums_of(images: Tensor) -> Tensor:
    """Return sums of values and squares, each program's own, (G, 2, C)."""
    channels = images.shape[1]
    partials, blocks_each = _room(images)
    launch(
        _sums,
        (len(partials),),
        images,
        partials,
        _pixels(images),
        blocks_each,
        channels,
        _SUMMED_ELEMENTS // channels,
    )
    return partials


def statistics_of(partials: Tensor, num_pixels: int, norm: nn.BatchNorm2d) -> Tensor:
    """Return mean and variance, (2, C), from sums (G, 2, C); the running statistics of norm move along."""
    rows, _, channels = partials.shape
    statistics = torch.empty_like(partials[0])
    launch(
        _finish,
        (channels // _CHANNELS,),
        partials,
        statistics,
        norm.running_mean,
        norm.running_var,
        norm.num_batches_tracked,
        rows,
        num_pixels,
        norm.momentum,
        channels,
        row_block(rows),
        _CHANNELS,
    )
    return statistics


def normalised(
    images: Tensor, shortcut: Tensor | None, mean: Tensor, variance: Tensor, scale: Tensor, shift: Tensor, eps: float
) -> Tensor:
    """Return relu(scale z + shift + shortcut)."""
    return _normalised(images, shortcut, mean, variance, scale, shift, eps, keeps_signs=False)[0]


def normalised_and_signs(
    images: Tensor, shortcut: Tensor, mean: Tensor, variance: Tensor, scale: Tensor, shift: Tensor, eps: float
) -> tuple[Tensor, Tensor]:
    """Return the same, and where it is positive, which backward asks for: (P, C / 8) uint8, a bit each."""
    return _normalised(images, shortcut, mean, variance, scale, shift, eps, keeps_signs=True)


def _normalised(
    images: Tensor,
    shortcut: Tensor | None,
    mean: Tensor,
    variance: Tensor,
    scale: Tensor,
    shift: Tensor,
    eps: float,
    *,
    keeps_signs: bool,
) -> tuple[Tensor, Tensor]:
    channels, num_pixels = images.shape[1], _pixels(images)
    out = torch.empty_like(images)
    signs = torch.empty((num_pixels if keeps_signs else 0, channels // 8), dtype=torch.uint8, device=images.device)
    launch(
        _apply,
        (triton.cdiv(images.numel(), _ELEMENTS),),
        images,
        images if shortcut is None else shortcut,
        mean,
        variance,
        scale,
        shift,
        out,
        signs,
        num_pixels,
        eps,
        shortcut is not None,
        keeps_signs,
        channels,
        _ELEMENTS // channels,
    )
    return out, signs


def gradients_of(
    gradient: Tensor, images: Tensor, signs: Tensor | None, statistics: Tensor, scale: Tensor, shift: Tensor, eps: float
) -> tuple[Tensor, Tensor | None, Tensor, Tensor]:
    """Return the gradients of images, shortcut, scale and shift; signs: of the result, where there was a shortcut."""
    channels, num_pixels = images.shape[1], _pixels(images)
    has_shortcut = signs is not None
    mean, variance = statistics
    partials, blocks_each = _room(images)
    launch(
        _gradient_sums,
        (len(partials),),
        images,
        images if signs is None else signs,
        gradient,
        mean,
        variance,
        scale,
        shift,
        partials,
        num_pixels,
        blocks_each,
        eps,
        has_shortcut,
        channels,
        _SUMMED_ELEMENTS // channels,
    )
    sums = total(partials)
    of_images = torch.empty_like(images)
    of_shortcut = torch.empty_like(images) if has_shortcut else None
    launch(
        _gradient_apply,
        (triton.cdiv(images.numel(), _GRADIENT_ELEMENTS),),
        images,
        images if signs is None else signs,
        gradient,
        mean,
        variance,
        sums,
        scale,
        shift,
        of_images,
        of_images if of_shortcut is None else of_shortcut,
        num_pixels,
        eps,
        has_shortcut,
        channels,
        _GRADIENT_ELEMENTS // channels,
    )
    of_shift, of_scale = sums
    return of_images, of_shortcut, of_scale, of_shift


def _pixels(images: Tensor) -> int:
    return images.numel() // images.shape[1]


def _room(images: Tensor) -> tuple[Tensor, int]:
    """Return room for the sums of each program, (programs, 2, C), and how many blocks a program sums."""
    blocks_each, programs = shares(triton.cdiv(images.numel(), _SUMMED_ELEMENTS))
    return torch.empty((programs, 2, images.shape[1]), dtype=torch.float32, device=images.device), blocks_each
