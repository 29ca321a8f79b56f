"""Every operation against torchvision's own function, image by image with the same parameter."""

from collections.abc import Callable

import pytest
import torch
from tests.augment.pictures import clothes, edge_cases, noise, scenes
from torch import Tensor
from torchvision.transforms.v2 import functional as reference

from proco.augment import photometric

PICTURES = {
    "colour": torch.cat([scenes(), edge_cases()]),
    "grey": torch.cat([scenes(channels=1), edge_cases(channels=1)]),
    "clothes": clothes(),
}
KINDS = list(PICTURES)


def check(found: Tensor, images: Tensor, one: Callable[[Tensor, int], Tensor], *, off_by_one: float = 0.0) -> None:
    """Compare with one(image, index); a share off_by_one of the values may differ, by one grey level."""
    expected = torch.stack([one(image, index) for index, image in enumerate(images)])
    assert found.dtype == torch.uint8
    difference = (found.int() - expected.int()).abs()
    assert difference.max() <= (1 if off_by_one else 0)
    assert (difference > 0).double().mean() <= off_by_one


def strengths(low: float, high: float, count: int) -> Tensor:
    return torch.linspace(low, high, count)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("name", "reference_name", "low", "high"),
    [
        ("brightness", "adjust_brightness", 0.0, 2.0),
        ("saturation", "adjust_saturation", 0.0, 2.0),
        ("contrast", "adjust_contrast", 0.0, 2.0),
        ("sharpness", "adjust_sharpness", 0.0, 2.0),
    ],
)
def test_blends(name: str, reference_name: str, low: float, high: float, kind: str) -> None:
    images = PICTURES[kind]
    factor = strengths(low, high, len(images))
    found = getattr(photometric, name)(images, factor)
    # Sums of products may be rounded once or twice; a value on the edge of two levels can fall either way.
    check(found, images, lambda image, i: getattr(reference, reference_name)(image, factor[i].item()), off_by_one=2e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_posterize_and_solarize(kind: str) -> None:
    images = PICTURES[kind]
    bits = torch.arange(len(images)) % 9
    check(photometric.posterize(images, bits), images, lambda image, i: reference.posterize(image, int(bits[i])))
    threshold = strengths(0, 255, len(images))
    found = photometric.solarize(images, threshold)
    check(found, images, lambda image, i: reference.solarize(image, threshold[i].item()))


def test_solarize_add_is_a_table_of_values() -> None:
    images = torch.arange(256, dtype=torch.uint8).view(1, 1, 16, 16).expand(3, 3, 16, 16)
    found = photometric.solarize_add(images, torch.tensor([0.0, 60.0, 140.0]))
    for amount, image in zip((0, 60, 140), found, strict=True):
        expected = [min(255, value + amount) if value < 128 else value for value in range(256)]
        assert image.flatten(1).tolist() == [expected] * 3


@pytest.mark.parametrize(("height", "width", "kernel"), [(32, 32, 3), (28, 40, 3), (64, 64, 7), (224, 224, 23)])
def test_blur(height: int, width: int, kernel: int) -> None:
    images = scenes(8, 3, height, width)
    sigma = strengths(0.1, 6.0, len(images))  # wide ones show where the kernel ends
    found = photometric.blur(images, sigma)
    # Two sums along lines instead of one over a square: a value between two levels can fall either way.
    check(
        found,
        images,
        lambda image, i: reference.gaussian_blur(image, [kernel, kernel], [sigma[i].item()]),
        off_by_one=1e-3,
    )
    assert not torch.equal(found, images)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("name", "reference_name"), [("invert", "invert"), ("auto_contrast", "autocontrast"), ("equalize", "equalize")]
)
def test_operations_without_a_strength(name: str, reference_name: str, kind: str) -> None:
    images = PICTURES[kind]
    check(getattr(photometric, name)(images), images, lambda image, i: getattr(reference, reference_name)(image))


def test_grayscale() -> None:
    images = PICTURES["colour"]
    found = photometric.grayscale(images)
    check(found, images, lambda image, i: reference.rgb_to_grayscale(image, 3), off_by_one=2e-3)
    assert photometric.grayscale(PICTURES["grey"]).shape[1] == 1


def test_hue() -> None:
    images = PICTURES["colour"]
    shift = strengths(-0.5, 0.5, len(images))
    found = photometric.hue(images, shift)
    check(found, images, lambda image, i: reference.adjust_hue(image, shift[i].item()), off_by_one=2e-2)
    assert torch.equal(photometric.hue(PICTURES["grey"], shift), PICTURES["grey"])


@pytest.mark.parametrize("name", ["brightness", "saturation", "contrast", "sharpness"])
def test_strength_one_changes_nothing_and_images_do_not_mix(name: str) -> None:
    images = PICTURES["colour"]
    operation = getattr(photometric, name)
    assert torch.equal(operation(images, torch.ones(len(images))), images)
    factor = strengths(0.2, 1.8, len(images))
    alone = torch.cat([operation(images[i : i + 1], factor[i : i + 1]) for i in range(len(images))])
    assert torch.equal(operation(images, factor), alone)


def test_inputs_are_left_alone() -> None:
    images = PICTURES["colour"]
    before = images.clone()
    for name in ("brightness", "saturation", "contrast", "sharpness", "hue", "solarize", "solarize_add", "posterize"):
        getattr(photometric, name)(images, torch.full((len(images),), 0.3))
    photometric.blur(images, torch.ones(len(images)))
    for name in ("invert", "grayscale", "auto_contrast", "equalize"):
        getattr(photometric, name)(images)
    assert torch.equal(images, before)


def test_images_of_a_few_pixels_are_sharpened_as_torchvision_does() -> None:
    for side in (1, 2, 3, 4):
        images = noise(6, height=side, width=side + 1)
        expected = torch.stack([reference.adjust_sharpness(image, 0.0) for image in images])
        difference = (photometric.sharpness(images, torch.zeros(6)).int() - expected.int()).abs()
        assert difference.max() <= 1
        assert (side <= 2) == torch.equal(expected, images)


def test_parts_of_a_bit_are_rounded() -> None:
    images = noise(4)
    bits = torch.tensor([4.9, 4.6, 4.4, 1.5])  # AutoAugment's levels are ninths of four bits
    assert torch.equal(photometric.posterize(images, bits), photometric.posterize(images, torch.tensor([5, 5, 4, 2])))
