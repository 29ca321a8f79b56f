"""Every move against torchvision's own function, image by image with the same parameters."""

import math

import pytest
import torch
from torch import Tensor
from torchvision.transforms import InterpolationMode
from torchvision.transforms.v2 import functional as reference

from proco.augment import geometric

NEAREST = InterpolationMode.NEAREST
FILL = 128


def pictures(size: int = 32, count: int = 40) -> Tensor:
    """Noise: a pixel taken from a wrong place is seen at once."""
    return torch.randint(256, (count, 3, size, size), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


def share_of_different_pixels(found: Tensor, expected: list[Tensor]) -> float:
    assert found.dtype == torch.uint8
    return (found != torch.stack(expected)).any(dim=1).double().mean().item()


def affine(image: Tensor, **changes: object) -> Tensor:
    settings = {"angle": 0.0, "translate": [0, 0], "scale": 1.0, "shear": [0.0, 0.0], **changes}
    return reference.affine(image, interpolation=NEAREST, fill=[float(FILL)] * 3, **settings)  # type: ignore[arg-type]


def test_flip() -> None:
    images = pictures()
    is_flipped = torch.arange(len(images)) % 3 == 0
    expected = [reference.horizontal_flip(image) if f else image for image, f in zip(images, is_flipped, strict=True)]
    assert share_of_different_pixels(geometric.flip(images, is_flipped), expected) == 0


def test_crop_with_padding() -> None:
    images = pictures()
    top, left = torch.arange(40) % 9 - 4, torch.arange(40) % 7 - 3
    padded = [reference.pad(image, [4, 4]) for image in images]
    expected = [image[:, 4 + t : 36 + t, 4 + f : 36 + f] for image, t, f in zip(padded, top, left, strict=True)]
    assert share_of_different_pixels(geometric.shifted_crop(images, top, left), expected) == 0


@pytest.mark.parametrize("axis", ["x", "y"])
def test_translation(axis: str) -> None:
    images = pictures()
    pixels = torch.arange(40) - 20
    move = geometric.translate_x if axis == "x" else geometric.translate_y
    steps = [[p, 0] if axis == "x" else [0, p] for p in pixels.tolist()]
    expected = [affine(image, translate=step) for image, step in zip(images, steps, strict=True)]
    assert share_of_different_pixels(move(images, pixels, fill=FILL), expected) == 0


@pytest.mark.parametrize("axis", ["x", "y"])
def test_shear(axis: str) -> None:
    images = pictures()
    slope = torch.linspace(-0.31, 0.33, 40)
    angles = [math.degrees(math.atan(s)) for s in slope.tolist()]
    shears = [[a, 0.0] if axis == "x" else [0.0, a] for a in angles]
    expected = [affine(image, shear=shear, center=[0, 0]) for image, shear in zip(images, shears, strict=True)]
    move = geometric.shear_x if axis == "x" else geometric.shear_y
    # A source exactly between two pixels may be rounded to either.
    assert share_of_different_pixels(move(images, slope, fill=FILL), expected) < 5e-3


@pytest.mark.parametrize("size", [31, 32])
def test_rotation(size: int) -> None:
    images = pictures(size)
    degrees = torch.linspace(-29.3, 30.1, 40)
    expected = [
        reference.rotate(image, d, interpolation=NEAREST, fill=[float(FILL)] * 3)
        for image, d in zip(images, degrees.tolist(), strict=True)
    ]
    assert share_of_different_pixels(geometric.rotate(images, degrees, fill=FILL), expected) < 5e-3


def test_cut_out_is_a_square_cut_off_at_the_border() -> None:
    images = pictures(8, 3) | 1  # no value is 0
    found = geometric.cut_out(images, torch.tensor([4, 0, 7]), torch.tensor([4, 0, 3]), 4)
    expected = images.clone()
    expected[0, :, 2:6, 2:6] = 0
    expected[1, :, :2, :2] = 0
    expected[2, :, 5:, 1:5] = 0
    assert torch.equal(found, expected)


@pytest.mark.parametrize(("side", "size"), [(32, (32, 32)), (64, (24, 32)), (20, (32, 16))])
def test_resized_crop_enlarges_and_reduces_as_torchvision(side: int, size: tuple[int, int]) -> None:
    images = pictures(side)
    generator = torch.Generator().manual_seed(1)
    height, width = (torch.randint(5, side + 1, (40,), generator=generator) for _ in range(2))
    top, left = ((torch.rand(40, generator=generator) * (side + 1 - extent)).long() for extent in (height, width))
    found = geometric.resized_crop(images, top, left, height, width, size)
    boxes = zip(images, top.tolist(), left.tolist(), height.tolist(), width.tolist(), strict=True)
    expected = [reference.resized_crop(image, t, f, h, w, list(size), antialias=True) for image, t, f, h, w in boxes]
    difference = (found.int() - torch.stack(expected).int()).abs()
    # torchvision multiplies in fixed point: a value between two grey levels may fall either way.
    assert difference.max() <= 1
    assert (difference > 0).double().mean() < 0.02


def test_whole_image_at_its_own_size_is_unchanged() -> None:
    images = pictures()
    zero, full = torch.zeros(40, dtype=torch.int64), torch.full((40,), 32)
    assert torch.equal(geometric.resized_crop(images, zero, zero, full, full, (32, 32)), images)
    assert torch.equal(geometric.rotate(images, torch.zeros(40)), images)
    assert torch.equal(geometric.shear_x(images, torch.zeros(40)), images)
