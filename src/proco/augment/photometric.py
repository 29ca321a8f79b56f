"""Changes of colour and light, a batch at a time with one strength per image.

images: (N, C, H, W) uint8 with C = 1 or 3; strengths: (N,); the result is uint8 again. The arithmetic is that of
torchvision's tensor functions (float32, then cut down to whole grey levels), which follow Pillow: the tests compare
with them image by image. Work is done in place where it can be: on a CPU new memory costs more than the arithmetic.
"""

import torch
from torch import Tensor
from torch.nn.functional import pad

from proco.augment.selection import where

_LUMA = (0.2989, 0.587, 0.114)  # ITU-R 601-2, as Pillow's and torchvision's grey


def brightness(images: Tensor, factor: Tensor) -> Tensor:
    """Multiply by factor: 0 is black, 1 the image itself."""
    return _to_uint8(images.float().mul_(_per_image(factor)))


def saturation(images: Tensor, factor: Tensor) -> Tensor:
    """Blend with the grey image, Pillow's "Color": 0 is grey, 1 the image itself."""
    if images.shape[1] == 1:
        return images
    values = images.float()
    return _blend(values, _luma(values), factor)


def contrast(images: Tensor, factor: Tensor) -> Tensor:
    """Blend with the mean grey of the image: 0 is flat, 1 the image itself."""
    values = images.float()
    return _blend(values, _luma(values).mean(dim=(1, 2, 3), keepdim=True), factor)


def sharpness(images: Tensor, factor: Tensor) -> Tensor:
    """Blend with a smoothed image: 0 is smooth, 1 the image itself. The outermost pixels stay as they are."""
    if min(images.shape[2:]) <= 2:
        return images
    sharp = images.float()
    inner = sharp[:, :, 1:-1, 1:-1]
    rows = (sharp[:, :, :-2] + sharp[:, :, 1:-1]).add_(sharp[:, :, 2:])
    square = (rows[:, :, :, :-2] + rows[:, :, :, 1:-1]).add_(rows[:, :, :, 2:])
    smooth = square.add_(inner, alpha=4).div_(13).round_()  # a pixel weighs 5, each of its neighbours 1
    inner += smooth.sub_(inner).mul_(_per_image(1 - factor))
    return _to_uint8(sharp)


def blur(images: Tensor, sigma: Tensor) -> Tensor:
    """Smooth with a Gaussian of standard deviation sigma > 0 in pixels, the image being mirrored at its border.

    The kernel is an odd number of pixels wide, at least 3 and about a tenth of the image's shorter side, as in SimCLR.
    """
    reach = max(1, min(images.shape[2:]) // 20)
    offsets = torch.arange(-reach, reach + 1, device=images.device)
    weights = torch.softmax(-0.5 * (offsets / sigma.float()[:, None]).square(), dim=1)
    smooth = images.float()
    for dim, padding in ((2, (0, 0, reach, reach)), (3, (reach, reach, 0, 0))):
        length, padded = smooth.shape[dim], pad(smooth, padding, mode="reflect")
        smooth = torch.zeros_like(smooth)
        for start, weight in enumerate(weights.unbind(1)):
            smooth.addcmul_(padded.narrow(dim, start, length), _per_image(weight))
    return _to_uint8(smooth.round())


def posterize(images: Tensor, bits: Tensor) -> Tensor:
    """Keep the given number of leading bits (0 to 8, rounded) of every value."""
    kept = torch.arange(9, device=images.device)
    masks = (256 - 2 ** (8 - kept)).to(torch.uint8)
    return images & _per_image(masks[bits.round().long()])


def solarize(images: Tensor, threshold: Tensor) -> Tensor:
    """Invert the values at or above threshold."""
    return where(images >= _per_image(threshold), invert(images), images)


def solarize_add(images: Tensor, amount: Tensor) -> Tensor:
    """Add amount, cut down to whole levels, to the values below 128."""
    return where(images < 128, _to_uint8(images.float().add_(_per_image(amount))), images)


def invert(images: Tensor) -> Tensor:
    """Turn every value v into 255 - v."""
    return 255 - images


def grayscale(images: Tensor) -> Tensor:
    """Put the grey image into every channel."""
    return images if images.shape[1] == 1 else _to_uint8(_weighted_channels(images.float())).expand_as(images)


def auto_contrast(images: Tensor) -> Tensor:
    """Stretch each channel of each image to the whole range; a flat channel stays as it is."""
    values = images.float()
    low, high = values.amin(dim=(2, 3), keepdim=True), values.amax(dim=(2, 3), keepdim=True)
    is_flat = low == high
    low = torch.where(is_flat, 0.0, low)
    step = torch.where(is_flat, 1.0, (high - low) * (1 / 255))
    return _to_uint8(values.sub_(low).div_(step))


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
    return where(step > 0, equalized, images.flatten(2)).view_as(images)


def hue(images: Tensor, shift: Tensor) -> Tensor:
    """Turn the hue by shift, a share of the circle in [-0.5, 0.5]; grey images have none."""
    if images.shape[1] == 1:
        return images
    colours = images.float() * (1 / 255)
    red, green, blue = colours.unbind(dim=1)
    value, low = colours.amax(dim=1), colours.amin(dim=1)
    chroma = value - low
    per_chroma = 1 / chroma.clamp_min(1e-3)  # below the least that is not 0: a grey pixel has hue 0
    # Position on the hexagon of hues, in sixths: which channel is largest, and how far the next one is.
    sixths = torch.where(
        value == red,
        (green - blue) * per_chroma,
        torch.where(value == green, 2 + (blue - red) * per_chroma, 4 + (red - green) * per_chroma),
    )
    # Each channel falls from value to low along the hexagon, offset by a third of it.
    offsets = torch.arange(5, 0, -2, device=images.device)[:, None, None]
    place = (sixths + 6 * shift.float()[:, None, None])[:, None] + offsets
    place -= (place * (1 / 6)).floor_().mul_(6)  # on the circle again; remainder() takes ten times as long
    fall = place.sub_(2).abs_().neg_().add_(2).clamp_(0, 1)
    turned = fall.mul_(-chroma[:, None]).add_(value[:, None])
    return turned.clamp_(0, 1).mul_(256 - 1e-3).to(torch.uint8)


def _luma(values: Tensor) -> Tensor:
    """Grey values (N, 1, H, W), cut down to whole levels, of float values."""
    return values if values.shape[1] == 1 else _weighted_channels(values).floor_()


def _weighted_channels(values: Tensor) -> Tensor:
    red, green, blue = values[:, 0:1], values[:, 1:2], values[:, 2:3]
    return red.mul(_LUMA[0]).add_(green, alpha=_LUMA[1]).add_(blue, alpha=_LUMA[2])


def _blend(values: Tensor, other: Tensor, factor: Tensor) -> Tensor:
    """Return factor * values + (1 - factor) * other; values are overwritten."""
    return _to_uint8(values.mul_(_per_image(factor)).add_(other * _per_image(1 - factor)))


def _per_image(values: Tensor) -> Tensor:
    return values.to(torch.float32 if values.is_floating_point() else values.dtype)[:, None, None, None]


def _to_uint8(values: Tensor) -> Tensor:
    """Cut values down to whole grey levels; they are overwritten."""
    return values.clamp_(0, 255).to(torch.uint8)
