"""Means and variances of channels in Triton, and the running ones that batch norm keeps.

Images are (N, C, H, W) in channels-last memory, that is (P, C). Each program sums its share of the pixels; a second
kernel adds the shares up.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor, nn

from proco.kernels.launch import launch
from proco.kernels.partials import row_block, shares

SUMMED_ELEMENTS = 8192  # of a block that a program sums, by four warps: what was fastest on an H200
_CHANNELS = 16  # of a program that adds the shares up


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


def sums_of(images: Tensor) -> Tensor:
    """Return sums of values and squares, each program's own, (G, 2, C)."""
    channels = images.shape[1]
    partials, blocks_each = room_for_sums(images)
    launch(
        _sums,
        (len(partials),),
        images,
        partials,
        pixels_of(images),
        blocks_each,
        channels,
        SUMMED_ELEMENTS // channels,
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


def room_for_sums(images: Tensor) -> tuple[Tensor, int]:
    """Return room for two sums of each channel and program, (programs, 2, C), and how many blocks a program sums."""
    blocks_each, programs = shares(triton.cdiv(images.numel(), SUMMED_ELEMENTS))
    return torch.empty((programs, 2, images.shape[1]), dtype=torch.float32, device=images.device), blocks_each


def pixels_of(images: Tensor) -> int:
    """Return the number P of pixels of all images."""
    return images.numel() // images.shape[1]
