"""Changes of colour and light, a batch at a time with one strength per image.

images: (N, C, H, W) uint8 with C = 1 or 3; strengths: (N,); the result is uint8 again. The arithmetic is that of
torchvision's tensor functions (float32, then cut down to whole grey levels), which follow Pillow: the tests compare
with them image by image.
"""

import torch
from torch import Tensor
from torch.nn.functional import conv2d

_LUMA = (0.2989, 0.587, 0.114)  # ITU-R 601-2, as Pillow's and torchvision's grey


def brightness(images: Tensor, factor: Tensor) -> Tensor:
    """Multiply by factor: 0 is black, 1 the image itself."""
    return _to_uint8(images * _per_image(factor))


def saturation(images: Tensor, factor: Tensor) -> Tensor:
    """Blend with the grey image, Pillow's "Color": 0 is grey, 1 the image itself."""
    return images if images.shape[1] == 1 else _blend(images, _luma(images), factor)


def contrast(images: Tensor, factor: Tensor) -> Tensor:
    """Blend with the mean grey of the image: 0 is flat, 1 the image itself."""
    return _blend(images, _luma(images).mean(dim=(1, 2, 3), keepdim=True), factor)


def sharpness(images: Tensor, factor: Tensor) -> Tensor:
    """Blend with a smoothed image: 0 is smooth, 1 the image itself. The outermost pixels stay as they are."""
    channels, height, width = images.shape[1:]
    if height <= 2 or width <= 2:
        return images
    kernel = torch.ones(channels, 1, 3, 3, device=images.device) / 13
    kernel[:, :, 1, 1] = 5 / 13
    sharp = images.float()
    inner = sharp[:, :, 1:-1, 1:-1]
    smooth = conv2d(sharp, kernel, groups=channels).round()
    sharp[:, :, 1:-1, 1:-1] = inner + _complement(factor) * (smooth - inner)
    return _to_uint8(sharp)


def posterize(images: Tensor, bits: Tensor) -> Tensor:
    """Keep the given number of leading bits (0 to 8, whole numbers) of every value."""
    kept = torch.arange(9, device=images.device)
    masks = (256 - 2 ** (8 - kept)).to(torch.uint8)
    return images & _per_image(masks[bits])


def solarize(images: Tensor, threshold: Tensor) -> Tensor:
    """Invert the values at or above threshold."""
    return torch.where(images >= _per_image(threshold), invert(images), images)


def invert(images: Tensor) -> Tensor:
    """Turn every value v into 255 - v."""
    return 255 - images


def grayscale(images: Tensor) -> Tensor:
    """Put the grey image into every channel."""
    return images if images.shape[1] == 1 else _to_uint8(_weighted_channels(images)).expand_as(images)


def auto_contrast(images: Tensor) -> Tensor:
    """Stretch each channel of each image to the whole range; a flat channel stays as it is."""
    values = images.float()
    low, high = values.amin(dim=(2, 3), keepdim=True), values.amax(dim=(2, 3), keepdim=True)
    is_flat = low == high
    low = torch.where(is_flat, 0.0, low)
    step = torch.where(is_flat, 1.0, (high - low) * (1 / 255))
    return _to_uint8((values - low) / step)


def equalize(images: Tensor) -> Tensor:
    """Make the histogram of each channel of each image even, as Pillow does."""
    flat = images.flatten(2).long()
    num_pixels = flat.shape[-1]
    histogram = torch.zeros(*flat.shape[:2], 256, dtype=torch.int64, device=images.device)
    histogram.scatter_add_(2, flat, torch.ones_like(flat))
    cumulative = histogram.cumsum(dim=2)
    # All pixels but those of the brightest value that occurs share 255 steps; where they are too few, nothing changes.
    brightest = flat.amax(dim=2, keepdim=True)
    step = (num_pixels - histogram.gather(2, brightest)) // 255
    darker = cumulative - histogram  # pixels below each value
    table = ((darker + step // 2) // step.clamp_min(1)).clamp(0, 255)
    equalized = table.gather(2, flat).to(torch.uint8)
    return torch.where(step > 0, equalized, images.flatten(2)).view_as(images)


def hue(images: Tensor, shift: Tensor) -> Tensor:
    """Turn the hue by shift, a share of the circle in [-0.5, 0.5]; grey images have none."""
    if images.shape[1] == 1:
        return images
    colours = images.float() * (1 / 255)
    red, green, blue = colours.unbind(dim=1)
    value, low = colours.amax(dim=1), colours.amin(dim=1)
    chroma = value - low
    is_grey = chroma == 0
    divisor = torch.where(is_grey, 1.0, chroma)
    # Position on the hexagon of hues, in sixths: which channel is largest, and how far the next one is.
    sixths = torch.where(
        value == red,
        (green - blue) / divisor,
        torch.where(value == green, 2 + (blue - red) / divisor, 4 + (red - green) / divisor),
    )
    turned = (sixths + 6 * shift.to(colours.dtype)[:, None, None]).remainder(6)
    # Each channel falls from value to low along the hexagon, offset by a third of it.
    channels = []
    for offset in (5, 3, 1):
        place = (turned + offset).remainder(6)
        channels.append(value - chroma * torch.minimum(place, 4 - place).clamp(0, 1))
    return (torch.stack(channels, dim=1).clamp(0, 1) * (256 - 1e-3)).to(torch.uint8)


def _luma(images: Tensor) -> Tensor:
    """Grey values (N, 1, H, W), cut down to whole levels."""
    return images.float() if images.shape[1] == 1 else _weighted_channels(images).floor()


def _weighted_channels(images: Tensor) -> Tensor:
    red, green, blue = images[:, 0:1], images[:, 1:2], images[:, 2:3]
    return red.mul(_LUMA[0]).add(green, alpha=_LUMA[1]).add(blue, alpha=_LUMA[2])


def _blend(images: Tensor, other: Tensor, factor: Tensor) -> Tensor:
    return _to_uint8(images * _per_image(factor) + other * _complement(factor))


def _complement(factor: Tensor) -> Tensor:
    return _per_image(1 - factor.double())  # rounded once


def _per_image(values: Tensor) -> Tensor:
    return values.to(torch.float32 if values.is_floating_point() else values.dtype)[:, None, None, None]


def _to_uint8(values: Tensor) -> Tensor:
    return values.clamp(0, 255).to(torch.uint8)
