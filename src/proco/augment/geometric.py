"""Moves of pixels, a batch at a time with parameters of their own for each image.

images: (N, C, H, W) uint8; parameters: (N,). What lies outside of an image has the value `fill`. Positions are
measured as in torchvision: pixel i covers [i, i + 1), its centre is at i + 0.5.
"""

import torch
from torch import Tensor


def flip(images: Tensor, is_flipped: Tensor) -> Tensor:
    """Mirror the images for which is_flipped is true, left to right."""
    return torch.where(is_flipped[:, None, None, None], images.flip(3), images)


def shifted_crop(images: Tensor, top: Tensor, left: Tensor, *, fill: int = 0) -> Tensor:
    """Cut out a window of the size of the image, top rows and left columns further on (or back, where negative).

    A crop with padding p is this with top and left in [-p, p].
    """
    height, width = images.shape[2:]
    rows = torch.arange(height, device=images.device) + top[:, None]
    columns = torch.arange(width, device=images.device) + left[:, None]
    return _take(images, rows[:, :, None].expand(-1, -1, width), columns[:, None, :].expand(-1, height, -1), fill)


def translate_x(images: Tensor, pixels: Tensor, *, fill: int = 0) -> Tensor:
    """Move each image to the right by a whole number of pixels."""
    return shifted_crop(images, torch.zeros_like(pixels), -pixels, fill=fill)


def translate_y(images: Tensor, pixels: Tensor, *, fill: int = 0) -> Tensor:
    """Move each image down by a whole number of pixels."""
    return shifted_crop(images, -pixels, torch.zeros_like(pixels), fill=fill)


def shear_x(images: Tensor, slope: Tensor, *, fill: int = 0) -> Tensor:
    """Take the pixel at (x, y) from (x + slope y, y), measured from the upper left corner."""
    x, y = _centres(images)
    return _nearest(images, x + _per_image(slope) * y, y.expand(len(images), -1, -1), fill)


def shear_y(images: Tensor, slope: Tensor, *, fill: int = 0) -> Tensor:
    """Take the pixel at (x, y) from (x, y + slope x), measured from the upper left corner."""
    x, y = _centres(images)
    return _nearest(images, x.expand(len(images), -1, -1), y + _per_image(slope) * x, fill)


def rotate(images: Tensor, degrees: Tensor, *, fill: int = 0) -> Tensor:
    """Turn each image about its centre, counter-clockwise."""
    height, width = images.shape[2:]
    x, y = _centres(images)
    x, y = x - width / 2, y - height / 2
    angle = torch.deg2rad(_per_image(degrees))
    cosine, sine = torch.cos(angle), torch.sin(angle)
    return _nearest(images, cosine * x - sine * y + width / 2, sine * x + cosine * y + height / 2, fill)


def cut_out(images: Tensor, row: Tensor, column: Tensor, size: int, *, fill: int = 0) -> Tensor:
    """Fill a square of the given size around (row, column); what sticks out of the image is lost."""
    height, width = images.shape[2:]
    top, left = row - size // 2, column - size // 2
    rows, columns = torch.arange(height, device=images.device), torch.arange(width, device=images.device)
    in_rows = (rows >= top[:, None]) & (rows < top[:, None] + size)
    in_columns = (columns >= left[:, None]) & (columns < left[:, None] + size)
    return images.masked_fill((in_rows[:, :, None] & in_columns[:, None, :])[:, None], fill)


def resized_crop(
    images: Tensor, top: Tensor, left: Tensor, height: Tensor, width: Tensor, size: tuple[int, int]
) -> Tensor:
    """Cut out a box of each image (whole numbers) and resize it to size, bilinear and antialiased.

    Resizing is linear and separable, so it is two batched products with a matrix per image: along the rows, then
    along the columns, each rounded to grey levels (halves upwards) as Pillow and torchvision do.
    """
    to_rows = _resize_weights(images.shape[2], top, height, size[0])
    to_columns = _resize_weights(images.shape[3], left, width, size[1])
    in_width = (images.float() @ to_columns[:, None].mT + 0.5).floor()
    return (to_rows[:, None] @ in_width + 0.5).floor().clamp(0, 255).to(torch.uint8)


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


def _nearest(images: Tensor, x: Tensor, y: Tensor, fill: int) -> Tensor:
    return _take(images, y.floor().long(), x.floor().long(), fill)


def _take(images: Tensor, rows: Tensor, columns: Tensor, fill: int) -> Tensor:
    """Gather pixels at rows and columns (N, H, W), fill where there is none."""
    height, width = images.shape[2:]
    is_inside = (rows >= 0) & (rows < height) & (columns >= 0) & (columns < width)
    index = (rows.clamp(0, height - 1) * width + columns.clamp(0, width - 1)).flatten(1)
    taken = images.flatten(2).gather(2, index[:, None].expand(-1, images.shape[1], -1)).view_as(images)
    return torch.where(is_inside[:, None], taken, torch.tensor(fill, dtype=images.dtype, device=images.device))


def _per_image(values: Tensor) -> Tensor:
    return values.float()[:, None, None]
