"""Every operation against torchvision's own function, image by image with the same parameter."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn.functional import interpolate
from torchvision.transforms.v2 import functional as reference

from proco.augment import photometric


def pictures(channels: int, size: int = 32) -> Tensor:
    """Smooth pictures with noise, dark ones and bright ones, and the edge cases: flat, black, white, two values."""
    generator = torch.Generator().manual_seed(channels)
    coarse = torch.rand(60, channels, 5, 5, generator=generator)
    smooth = interpolate(coarse, size=size, mode="bicubic").clamp(0, 1)
    noisy = smooth * torch.rand(60, 1, 1, 1, generator=generator) + 0.05 * torch.rand(
        60, channels, size, size, generator=generator
    )
    flat = torch.tensor([0.0, 1.0, 0.4])[:, None, None, None].expand(3, channels, size, size)
    halves = (torch.arange(size) < size // 3).float().expand(1, channels, size, size)
    return (torch.cat([noisy, flat, halves]).clamp(0, 1) * 255).to(torch.uint8)


def check(found: Tensor, images: Tensor, one: Callable[[Tensor, int], Tensor], *, off_by_one: float = 0.0) -> None:
    """Compare with one(image, index); a share off_by_one of the values may differ, by one grey level."""
    expected = torch.stack([one(image, index) for index, image in enumerate(images)])
    assert found.dtype == torch.uint8
    difference = (found.int() - expected.int()).abs()
    assert difference.max() <= (1 if off_by_one else 0)
    assert (difference > 0).double().mean() <= off_by_one


def strengths(low: float, high: float, count: int) -> Tensor:
    return torch.linspace(low, high, count)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize(
    ("name", "reference_name", "low", "high"),
    [
        ("brightness", "adjust_brightness", 0.0, 2.0),
        ("saturation", "adjust_saturation", 0.0, 2.0),
        ("contrast", "adjust_contrast", 0.0, 2.0),
        ("sharpness", "adjust_sharpness", 0.0, 2.0),
    ],
)
def test_blends(name: str, reference_name: str, low: float, high: float, channels: int) -> None:
    images = pictures(channels)
    factor = strengths(low, high, len(images))
    found = getattr(photometric, name)(images, factor)
    # Sums of products may be rounded once or twice; a value on the edge of two levels can fall either way.
    check(found, images, lambda image, i: getattr(reference, reference_name)(image, factor[i].item()), off_by_one=2e-3)


@pytest.mark.parametrize("channels", [1, 3])
def test_posterize_and_solarize(channels: int) -> None:
    images = pictures(channels)
    bits = torch.arange(len(images)) % 9
    check(photometric.posterize(images, bits), images, lambda image, i: reference.posterize(image, int(bits[i])))
    threshold = strengths(0, 255, len(images))
    found = photometric.solarize(images, threshold)
    check(found, images, lambda image, i: reference.solarize(image, threshold[i].item()))


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize(
    ("name", "reference_name"), [("invert", "invert"), ("auto_contrast", "autocontrast"), ("equalize", "equalize")]
)
def test_operations_without_a_strength(name: str, reference_name: str, channels: int) -> None:
    images = pictures(channels)
    check(getattr(photometric, name)(images), images, lambda image, i: getattr(reference, reference_name)(image))


def test_grayscale() -> None:
    images = pictures(3)
    found = photometric.grayscale(images)
    check(found, images, lambda image, i: reference.rgb_to_grayscale(image, 3), off_by_one=2e-3)
    assert photometric.grayscale(pictures(1)).shape[1] == 1


def test_hue() -> None:
    images = pictures(3)
    shift = strengths(-0.5, 0.5, len(images))
    found = photometric.hue(images, shift)
    check(found, images, lambda image, i: reference.adjust_hue(image, shift[i].item()), off_by_one=2e-2)
    assert torch.equal(photometric.hue(pictures(1), shift), pictures(1))


@pytest.mark.parametrize("name", ["brightness", "saturation", "contrast", "sharpness"])
def test_strength_one_changes_nothing_and_images_do_not_mix(name: str) -> None:
    images = pictures(3)
    operation = getattr(photometric, name)
    assert torch.equal(operation(images, torch.ones(len(images))), images)
    factor = strengths(0.2, 1.8, len(images))
    alone = torch.cat([operation(images[i : i + 1], factor[i : i + 1]) for i in range(len(images))])
    assert torch.equal(operation(images, factor), alone)


def test_inputs_are_left_alone() -> None:
    images = pictures(3)
    before = images.clone()
    photometric.sharpness(images, torch.zeros(len(images)))
    photometric.equalize(images)
    assert torch.equal(images, before)
