"""Batch norm, the addition of a shortcut and ReLU as one function in Triton, and its gradients.

    out = relu(scale z + shift + shortcut),   z = (x - mean) / sqrt(variance + eps)

Images are (N, C, H, W) in channels-last memory, that is (P, C). Forward begins from proco.kernels.statistics. Backward
takes two passes, since with d = gradient [out > 0] it needs sum d and sum d z of each channel:

    gradient of x = scale / sqrt(variance + eps) (d - mean(d) - z mean(d z)).
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from proco.kernels.launch import launch
from proco.kernels.partials import total
from proco.kernels.statistics import SUMMED_ELEMENTS, pixels_of, room_for_sums

# Of a block that is written, by four warps; what was fastest on an H200.
_ELEMENTS = 8192
_GRADIENT_ELEMENTS = 2048


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


def normalised(
    images: Tensor,
    shortcut: Tensor | None,
    mean: Tensor,
    variance: Tensor,
    scale: Tensor,
    shift: Tensor,
    eps: float,
    *,
    keeps_signs: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Return relu(scale z + shift + shortcut) and, if asked for, where it is positive: (P, C / 8) uint8, a bit each.

    Backward asks for the signs where there is a shortcut; without one it computes them again.
    """
    channels, num_pixels = images.shape[1], pixels_of(images)
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
    return out, signs if keeps_signs else None


def gradients_of(
    gradient: Tensor, images: Tensor, signs: Tensor | None, statistics: Tensor, scale: Tensor, shift: Tensor, eps: float
) -> tuple[Tensor, Tensor | None, Tensor, Tensor]:
    """Return the gradients of images, shortcut, scale and shift; signs: of the result, where there was a shortcut."""
    channels, num_pixels = images.shape[1], pixels_of(images)
    has_shortcut = signs is not None
    mean, variance = statistics
    partials, blocks_each = room_for_sums(images)
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
        SUMMED_ELEMENTS // channels,
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
