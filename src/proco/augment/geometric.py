"""Moves of pixels, a batch at a time with parameters of their own for each image.

images: (N, C, H, W) uint8; parameters: (N,). What lies outside of an image has the value `fill`, one for all channels
or one for each. Positions are measured as in torchvision: pixel i covers [i, i + 1), its centre is at i + 0.5.

Moves by parts of a pixel take the nearest one or, with "bilinear" and "bicubic" sampling, weigh 4 or 16 of them as
Pillow does: the place a pixel comes from is inside of the image or not, and neighbours that do not exist are those at
the border.
"""

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from proco.augment.selection import where
from proco.kernels.availability import kernels_run_on

Fill = int | tuple[int, ...]
PadMode = Literal["zero", "reflect"]
Sampling = Literal["nearest", "bilinear", "bicubic"]


def flip(images: Tensor, is_flipped: Tensor) -> Tensor:
    """Mirror the images for which is_flipped is true, left to right."""
    return where(is_flipped[:, None, None, None], images.flip(3), images)


def shifted_crop(images: Tensor, top: Tensor, left: Tensor, *, pad_mode: PadMode = "zero") -> Tensor:
    """Cut out a window of the size of the image, top rows and left columns further on (or back, where negative).

    A crop with padding p is this with top and left in [-p, p]; reflection needs p below the height and the width.
    """
    height, width = images.shape[2:]
    rows = torch.arange(height, device=images.device) + top[:, None]
    columns = torch.arange(width, device=images.device) + left[:, None]
    if pad_mode == "reflect":
        rows, columns = _reflect(rows, height), _reflect(columns, width)
    return _take(images, rows[:, :, None], columns[:, None, :], 0)


def translate_x(images: Tensor, pixels: Tensor, *, fill: Fill = 0, sampling: Sampling = "nearest") -> Tensor:
    """Move each image to the right."""
    x, y = _centres(images)
    return _sample(images, x - _per_image(pixels), y, fill, sampling)


def translate_y(images: Tensor, pixels: Tensor, *, fill: Fill = 0, sampling: Sampling = "nearest") -> Tensor:
    """Move each image down."""
    x, y = _centres(images)
    return _sample(images, x, y - _per_image(pixels), fill, sampling)


def shear_x(images: Tensor, slope: Tensor, *, fill: Fill = 0, sampling: Sampling = "nearest") -> Tensor:
    """Take the pixel at (x, y) from (x + slope y, y), measured from the upper left corner."""
    x, y = _centres(images)
    return _sample(images, x + _per_image(slope) * y, y, fill, sampling)


def shear_y(images: Tensor, slope: Tensor, *, fill: Fill = 0, sampling: Sampling = "nearest") -> Tensor:
    """Take the pixel at (x, y) from (x, y + slope x), measured from the upper left corner."""
    x, y = _centres(images)
    return _sample(images, x, y + _per_image(slope) * x, fill, sampling)


def rotate(images: Tensor, degrees: Tensor, *, fill: Fill = 0, sampling: Sampling = "nearest") -> Tensor:
    """Turn each image about its centre, counter-clockwise."""
    height, width = images.shape[2:]
    x, y = _centres(images)
    x, y = x - width / 2, y - height / 2
    angle = torch.deg2rad(_per_image(degrees))
    cosine, sine = torch.cos(angle), torch.sin(angle)
    # Sums of a row's part and a column's, which are small.
    x, y = (cosine * x + width / 2) - sine * y, (cosine * y + height / 2) + sine * x
    return _sample(images, x, y, fill, sampling)


def cut_out(images: Tensor, top: Tensor, left: Tensor, size: int, *, fill: int = 0) -> Tensor:
    """Fill a square with the given corner, which may lie outside, and side; what sticks out of the image is lost."""
    height, width = images.shape[2:]
    rows, columns = torch.arange(height, device=images.device), torch.arange(width, device=images.device)
    in_rows = (rows >= top[:, None]) & (rows < top[:, None] + size)
    in_columns = (columns >= left[:, None]) & (columns < left[:, None] + size)
    return where((in_rows[:, :, None] & in_columns[:, None, :])[:, None], fill, images)


def resized_crop(
    images: Tensor, top: Tensor, left: Tensor, height: Tensor, width: Tensor, size: tuple[int, int]
) -> Tensor:
    """Cut out a box of each image (whole numbers) and resize it to size, bilinear and antialiased.

    Resizing is linear and separable, so it is two batched products with a matrix per image: along the rows, then
    along the columns, each rounded to grey levels (halves upwards) as Pillow and torchvision do.
    """
    if _kernel_resizes(images.shape, size, images.device):
        from proco.kernels import resize

        return resize.resized_crop(images, top, left, height, width, size)
    num_images, channels, old_height, old_width = images.shape
    to_rows = _resize_weights(old_height, top, height, size[0])
    to_columns = _resize_weights(old_width, left, width, size[1])
    # With the channels behind the rows, each product is one of matrices for all channels at once.
    lines = images.transpose(1, 2).reshape(num_images, old_height * channels, old_width).float()
    lines = torch.bmm(lines, to_columns.mT).add_(0.5).floor_().view(num_images, old_height, channels * size[1])
    resized = torch.bmm(to_rows, lines).add_(0.5).clamp_(0, 255).to(torch.uint8)
    return resized.view(num_images, size[0], channels, size[1]).transpose(1, 2).contiguous()


def resize_scratch_bytes(shape: torch.Size, size: tuple[int, int], device: torch.device) -> int:
    """Return the memory that `resized_crop` takes beside its result, for images of a shape (N, C, H, W) on device."""
    if _kernel_resizes(shape, size, device):
        return 0
    num_images, channels, height, width = shape
    # In float32: the images, the images resized along one side, and the weights with what they are computed from.
    weights = 4 * (size[0] * height + size[1] * width)
    return num_images * 4 * (channels * height * (width + 2 * size[1]) + weights)


def _kernel_resizes(shape: torch.Size, size: tuple[int, int], device: torch.device) -> bool:
    if not kernels_run_on(device):
        return False
    from proco.kernels import resize

    return resize.serves(shape, size)


def _resize_weights(length: int, start: Tensor, extent: Tensor, size: int) -> Tensor:
    """Return (N, size, length): how much each pixel of a line gives to each of the box's size output pixels."""
    start, extent = start.float()[:, None, None], extent.float()[:, None, None]
    scale = extent / size
    centre = start + (torch.arange(size, device=start.device)[:, None] + 0.5) * scale
    pixel = torch.arange(length, device=start.device)
    # A triangle as wide as one output pixel, or one input pixel where the image is enlarged.
    distance = (pixel + 0.5 - centre).abs() / scale.clamp_min(1)
    weights = (1 - distance).clamp_min(0) * ((pixel >= start) & (pixel < start + extent))
    return weights / weights.sum(dim=2, keepdim=True)


def _centres(images: Tensor) -> tuple[Tensor, Tensor]:
    """Return x (1, 1, W) and y (1, H, 1) of the centres of the pixels."""
    height, width = images.shape[2:]
    x = torch.arange(width, device=images.device) + 0.5
    y = torch.arange(height, device=images.device) + 0.5
    return x[None, None, :], y[None, :, None]


def _sample(images: Tensor, x: Tensor, y: Tensor, fill: Fill, sampling: Sampling) -> Tensor:
    """Read the images at x and y, which broadcast to (N, H, W)."""
    if sampling == "nearest":
        return _take(images, y.floor(), x.floor(), fill)
    height, width = images.shape[2:]
    left, above = (x - 0.5).floor(), (y - 0.5).floor()
    reach, blend = (range(2), _blend_two) if sampling == "bilinear" else (range(-1, 3), _blend_four)
    columns = [(left + i).clamp(0, width - 1) for i in reach]
    lines = [
        blend([_gather(images, row, column).float() for column in columns], (x - 0.5 - left)[:, None])
        for row in ((above + i).clamp(0, height - 1) for i in reach)
    ]
    blended = blend(lines, (y - 0.5 - above)[:, None]).clamp(0, 255).to(images.dtype)
    is_inside = ((x >= 0) & (x < width)) & ((y >= 0) & (y < height))
    return where(is_inside[:, None], blended, _filled(images, height, width, fill))


def _blend_two(values: Sequence[Tensor], part: Tensor) -> Tensor:
    """Return what lies between two values, a part of the way from the first."""
    first, second = values
    return torch.lerp(first, second, part)


def _blend_four(values: Sequence[Tensor], part: Tensor) -> Tensor:
    """Return what lies between the second and the third of four values, on Pillow's cubic, whose slopes are steep."""
    before, first, second, after = values
    slope, bend, twist = second - before, 2 * (before - first) + second - after, first - before + after - second
    return first + part * (slope + part * (bend + part * twist))


def _take(images: Tensor, rows: Tensor, columns: Tensor, fill: Fill) -> Tensor:
    """Gather pixels at rows and columns, whole numbers that broadcast to (N, H, W); fill where there is none."""
    height, width = images.shape[2:]
    bordered = _filled(images, height + 2, width + 2, fill)
    bordered[:, :, 1:-1, 1:-1] = images
    return _gather(bordered, rows.clamp(-1, height) + 1, columns.clamp(-1, width) + 1)


def _gather(images: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """Read pixels at rows and columns, whole numbers inside of the image; numbers of pixels are exact in float32."""
    index = (rows * images.shape[3] + columns).long()
    taken = images.flatten(2).gather(2, index.flatten(1)[:, None].expand(-1, images.shape[1], -1))
    return taken.view(*images.shape[:2], *index.shape[1:])


def _filled(images: Tensor, height: int, width: int, fill: Fill) -> Tensor:
    """Return as many images of the given height and width, of one colour."""
    num_images, channels = images.shape[:2]
    colour = (fill,) * channels if isinstance(fill, int) else fill
    layers = [images.new_full((num_images, height, width), value) for value in colour]
    return torch.stack(layers, dim=1)


def _reflect(index: Tensor, length: int) -> Tensor:
    """Mirror indices at the first and the last pixel, which are not repeated."""
    return length - 1 - (length - 1 - index.abs()).abs()


def _per_image(values: Tensor) -> Tensor:
    return values.float()[:, None, None]
