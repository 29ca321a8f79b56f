"""Changes of colour, several to an image, in one kernel of Triton: an image is read and written once.

Images are (N, 3, H, W) uint8. The arithmetic, each rounding of it, is that of proco.augment.photometric: float32, and
after every step whole grey levels. So nothing is contracted into a fused multiply-add but what torch contracts.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from proco.kernels.launch import launch

CODES = {"brightness": 0, "contrast": 1, "saturation": 2, "hue": 3, "grayscale": 4}
_BRIGHTNESS, _CONTRAST, _SATURATION, _HUE, _GRAYSCALE = map(tl.constexpr, CODES.values())
_OF_RED, _OF_GREEN, _OF_BLUE = tl.constexpr(0.2989), tl.constexpr(0.587), tl.constexpr(0.114)  # in grey
_PER_LEVEL, _PER_SIXTH = tl.constexpr(1 / 255), tl.constexpr(1 / 6)
_LEVELS = tl.constexpr(256 - 1e-3)
_LEAST_CHROMA = tl.constexpr(1e-3)  # below the least that is not 0

_MOST_PIXELS = 4096  # of an image, which a program holds in registers
_PIXELS_PER_WARP = 256  # 8 a thread


@triton.jit
def _colour_steps(images, operation, strength, out, num_steps, num_pixels: tl.constexpr, block: tl.constexpr):
    """Take an image through its steps; operation and strength: (N, num_steps)."""
    image = tl.program_id(0).to(tl.int64)
    pixel = tl.arange(0, block)
    inside = pixel < num_pixels
    at = image * (3 * num_pixels) + pixel
    red = tl.load(images + at, mask=inside, other=0).to(tl.float32)
    green = tl.load(images + at + num_pixels, mask=inside, other=0).to(tl.float32)
    blue = tl.load(images + at + 2 * num_pixels, mask=inside, other=0).to(tl.float32)
    for step in range(num_steps):
        code = tl.load(operation + image * num_steps + step)
        amount = tl.load(strength + image * num_steps + step)
        if code == _BRIGHTNESS:
            red, green, blue = _whole(red * amount), _whole(green * amount), _whole(blue * amount)
        elif code == _CONTRAST:
            # Whole numbers, so that their sum is exact in any order.
            total = tl.sum(tl.where(inside, _grey(red, green, blue), 0.0), axis=0)
            red, green, blue = _blend(red, green, blue, tl.div_rn(total, num_pixels * 1.0), amount)
        elif code == _SATURATION:
            red, green, blue = _blend(red, green, blue, _grey(red, green, blue), amount)
        elif code == _HUE:
            red, green, blue = _turn(red, green, blue, amount)
        elif code == _GRAYSCALE:
            red = _grey(red, green, blue)
            green, blue = red, red
    tl.store(out + at, red.to(tl.uint8), mask=inside)
    tl.store(out + at + num_pixels, green.to(tl.uint8), mask=inside)
    tl.store(out + at + 2 * num_pixels, blue.to(tl.uint8), mask=inside)


@triton.jit
def _whole(values):
    """Cut values down to whole grey levels."""
    return tl.floor(tl.clamp(values, 0.0, 255.0))


@triton.jit
def _grey(red, green, blue):
    return tl.floor(tl.fma(blue, _OF_BLUE, tl.fma(green, _OF_GREEN, red * _OF_RED)))


@triton.jit
def _blend(red, green, blue, other, factor):
    """Return factor * values + (1 - factor) * other of each channel."""
    rest = other * (1.0 - factor)
    return _whole(red * factor + rest), _whole(green * factor + rest), _whole(blue * factor + rest)


@triton.jit
def _turn(red, green, blue, shift):
    """Turn the hue by a share of the circle."""
    red, green, blue = red * _PER_LEVEL, green * _PER_LEVEL, blue * _PER_LEVEL
    value = tl.maximum(red, tl.maximum(green, blue))
    chroma = value - tl.minimum(red, tl.minimum(green, blue))
    per_chroma = tl.div_rn(1.0, tl.maximum(chroma, _LEAST_CHROMA))
    sixths = tl.where(
        value == red,
        (green - blue) * per_chroma,
        tl.where(value == green, 2.0 + (blue - red) * per_chroma, 4.0 + (red - green) * per_chroma),
    )
    sixths += 6.0 * shift
    return _at(sixths + 5.0, value, chroma), _at(sixths + 3.0, value, chroma), _at(sixths + 1.0, value, chroma)


@triton.jit
def _at(place, value, chroma):
    """Return a channel at its place on the hexagon of hues, where it falls from value by chroma and rises again."""
    place -= tl.floor(place * _PER_SIXTH) * 6.0
    fall = tl.clamp(2.0 - tl.abs(place - 2.0), 0.0, 1.0)
    return tl.floor(tl.clamp(value - fall * chroma, 0.0, 1.0) * _LEVELS)


def serves(images: Tensor) -> bool:
    """Return whether the images are what the kernel takes."""
    count, channels, height, width = images.shape
    return images.dtype == torch.uint8 and count > 0 and channels == 3 and 0 < height * width <= _MOST_PIXELS


def colour_steps(images: Tensor, operation: Tensor, strength: Tensor) -> Tensor:
    """Apply to each image its steps, one after the other; operation, strength: (N, S).

    An operation is one of CODES; any other leaves the image as it is. Strengths are float32, in photometric's units.
    """
    images = images.contiguous()
    num_pixels = images[0, 0].numel()
    block = triton.next_power_of_2(num_pixels)
    out = torch.empty_like(images)
    launch(
        _colour_steps,
        (len(images),),
        images,
        operation.contiguous(),
        strength.float().contiguous(),
        out,
        operation.shape[1],
        num_pixels,
        block,
        num_warps=max(1, block // _PIXELS_PER_WARP),
        enable_fp_fusion=False,
    )
    return out
