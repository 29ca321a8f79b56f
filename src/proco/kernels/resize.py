"""Boxes cut out of small images and resized, bilinear and antialiased, in one kernel of Triton.

The arithmetic is that of proco.augment.geometric.resized_crop: along the rows, then along the columns, each a product
with a matrix that is computed from the box, each rounded to grey levels. As torch's operations, the matrices of many
images are written to memory and read again, for more numbers than the images have.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from proco.kernels.launch import launch

_LONGEST_SIDE = 64  # of an image or its result, whose matrices a program holds
_LEAST_BLOCK = 16  # of a product


@triton.jit
def _line_weights(start, extent, length, size, size_block: tl.constexpr, length_block: tl.constexpr):
    """Return how much each pixel of a line gives to each of the box's size output pixels: (size, length), padded."""
    start, extent = start.to(tl.float32), extent.to(tl.float32)
    scale = tl.div_rn(extent, size * 1.0)
    place, pixel = tl.arange(0, size_block)[:, None], tl.arange(0, length_block)[None, :]
    centre = start + (place + 0.5) * scale
    # A triangle as wide as one output pixel, or one input pixel where the image is enlarged.
    distance = tl.div_rn(tl.abs(pixel + 0.5 - centre), tl.maximum(scale, 1.0))
    inside = (pixel >= start) & (pixel < start + extent) & (pixel < length)
    weights = tl.where(inside, tl.maximum(1.0 - distance, 0.0), 0.0)
    total = tl.sum(weights, axis=1)[:, None]
    return tl.div_rn(weights, tl.where(total > 0, total, 1.0))


@triton.jit
def _resized_crop(
    images,
    top,
    left,
    box_height,
    box_width,
    out,
    channels: tl.constexpr,
    height: tl.constexpr,
    width: tl.constexpr,
    out_height: tl.constexpr,
    out_width: tl.constexpr,
    height_block: tl.constexpr,
    width_block: tl.constexpr,
    out_height_block: tl.constexpr,
    out_width_block: tl.constexpr,
):
    """Write one image."""
    image = tl.program_id(0).to(tl.int64)
    to_rows = _line_weights(
        tl.load(top + image), tl.load(box_height + image), height, out_height, out_height_block, height_block
    )
    to_columns = _line_weights(
        tl.load(left + image), tl.load(box_width + image), width, out_width, out_width_block, width_block
    )
    row, column = tl.arange(0, height_block)[:, None], tl.arange(0, width_block)[None, :]
    out_row, out_column = tl.arange(0, out_height_block)[:, None], tl.arange(0, out_width_block)[None, :]
    for channel in range(channels):
        layer = image * channels + channel
        at = images + layer * (height * width) + row * width + column
        values = tl.load(at, mask=(row < height) & (column < width), other=0).to(tl.float32)
        lines = tl.floor(tl.dot(values, tl.trans(to_columns), input_precision="ieee") + 0.5)
        resized = tl.clamp(tl.dot(to_rows, lines, input_precision="ieee") + 0.5, 0.0, 255.0)
        out_at = out + layer * (out_height * out_width) + out_row * out_width + out_column
        tl.store(out_at, resized.to(tl.uint8), mask=(out_row < out_height) & (out_column < out_width))


def serves(shape: torch.Size, size: tuple[int, int]) -> bool:
    """Return whether images of a shape, (N, C, H, W), and the size they get are what the kernel takes."""
    return min(shape) > 0 and max(*shape[2:], *size) <= _LONGEST_SIDE


def resized_crop(
    images: Tensor, top: Tensor, left: Tensor, height: Tensor, width: Tensor, size: tuple[int, int]
) -> Tensor:
    """Cut a box out of each image, (N, C, H, W) uint8, and resize it to size; the box's parts are (N,)."""
    images = images.contiguous()
    count, channels, *sides = images.shape
    out = torch.empty(count, channels, *size, dtype=torch.uint8, device=images.device)
    blocks = [max(_LEAST_BLOCK, triton.next_power_of_2(side)) for side in (*sides, *size)]
    launch(
        _resized_crop,
        (count,),
        images,
        *(part.contiguous() for part in (top, left, height, width)),
        out,
        channels,
        *sides,
        *size,
        *blocks,
        num_warps=4 if max(blocks) <= 32 else 16,
    )
    return out
