"""Every move against torchvision's own function, image by image with the same parameters."""

import math

import numpy as np
import pytest
import torch
from PIL import Image
from tests.augment.pictures import noise
from torch import Tensor
from torchvision.transforms import InterpolationMode
from torchvision.transforms.v2 import functional as reference

from proco.augment import geometric
from proco.augment.geometric import Sampling

NEAREST = InterpolationMode.NEAREST
FILL = 128


def share_of_different_pixels(found: Tensor, expected: list[Tensor]) -> float:
    assert found.dtype == torch.uint8
    return (found != torch.stack(expected)).any(dim=1).double().mean().item()


def affine(image: Tensor, **changes: object) -> Tensor:
    settings = {"angle": 0.0, "translate": [0, 0], "scale": 1.0, "shear": [0.0, 0.0], **changes}
    return reference.affine(image, interpolation=NEAREST, fill=[float(FILL)] * 3, **settings)  # type: ignore[arg-type]


def test_flip() -> None:
    images = noise()
    is_flipped = torch.arange(len(images)) % 3 == 0
    expected = [reference.horizontal_flip(image) if f else image for image, f in zip(images, is_flipped, strict=True)]
    assert share_of_different_pixels(geometric.flip(images, is_flipped), expected) == 0


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize(("pad_mode", "their_mode"), [("zero", "constant"), ("reflect", "reflect")])
def test_crop_with_padding(pad_mode: geometric.PadMode, their_mode: str, channels: int) -> None:
    images = noise(channels=channels, height=28, width=36)
    top, left = torch.arange(40) % 9 - 4, torch.arange(40) % 7 - 3
    padded = [reference.pad(image, [4, 4], padding_mode=their_mode) for image in images]
    expected = [image[:, 4 + t : 32 + t, 4 + f : 40 + f] for image, t, f in zip(padded, top, left, strict=True)]
    assert share_of_different_pixels(geometric.shifted_crop(images, top, left, pad_mode=pad_mode), expected) == 0


@pytest.mark.parametrize("axis", ["x", "y"])
def test_translation(axis: str) -> None:
    images = noise()
    pixels = torch.arange(40) - 20
    move = geometric.translate_x if axis == "x" else geometric.translate_y
    steps = [[p, 0] if axis == "x" else [0, p] for p in pixels.tolist()]
    expected = [affine(image, translate=step) for image, step in zip(images, steps, strict=True)]
    assert share_of_different_pixels(move(images, pixels, fill=FILL), expected) == 0


@pytest.mark.parametrize("axis", ["x", "y"])
def test_shear(axis: str) -> None:
    images = noise()
    slope = torch.linspace(-0.31, 0.33, 40)
    angles = [math.degrees(math.atan(s)) for s in slope.tolist()]
    shears = [[a, 0.0] if axis == "x" else [0.0, a] for a in angles]
    expected = [affine(image, shear=shear, center=[0, 0]) for image, shear in zip(images, shears, strict=True)]
    move = geometric.shear_x if axis == "x" else geometric.shear_y
    # A source exactly between two pixels may be rounded to either.
    assert share_of_different_pixels(move(images, slope, fill=FILL), expected) < 5e-3


@pytest.mark.parametrize("size", [31, 32])
def test_rotation(size: int) -> None:
    images = noise(height=size, width=size)
    degrees = torch.linspace(-29.3, 30.1, 40)
    expected = [
        reference.rotate(image, d, interpolation=NEAREST, fill=[float(FILL)] * 3)
        for image, d in zip(images, degrees.tolist(), strict=True)
    ]
    assert share_of_different_pixels(geometric.rotate(images, degrees, fill=FILL), expected) < 5e-3


@pytest.mark.parametrize("sampling", ["nearest", "bilinear", "bicubic"])
@pytest.mark.parametrize(("height", "width"), [(32, 32), (28, 40)])
@pytest.mark.parametrize("name", ["shear_x", "shear_y", "translate_x", "translate_y", "rotate"])
def test_moves_by_parts_of_a_pixel_are_pillows(name: str, height: int, width: int, sampling: Sampling) -> None:
    images = noise(height=height, width=width)
    strength = torch.linspace(-0.31, 0.33, 40)
    if name == "rotate":
        strength = strength * 90
    elif name.startswith("translate"):
        strength = strength * 29  # never half a pixel, which may be rounded either way
    fill = (124, 116, 104)
    theirs = Image.Resampling[sampling.upper()]

    def pillow(image: Tensor, value: float) -> Tensor:
        picture = Image.fromarray(image.permute(1, 2, 0).numpy())
        if name == "rotate":
            moved = picture.rotate(value, theirs, fillcolor=fill)
        else:
            sources = {
                "shear_x": (1, value, 0, 0, 1, 0),
                "shear_y": (1, 0, 0, value, 1, 0),
                "translate_x": (1, 0, -value, 0, 1, 0),
                "translate_y": (1, 0, 0, 0, 1, -value),
            }
            moved = picture.transform(picture.size, Image.Transform.AFFINE, sources[name], theirs, fillcolor=fill)
        return torch.from_numpy(np.array(moved)).permute(2, 0, 1)

    found = getattr(geometric, name)(images, strength, fill=fill, sampling=sampling)
    expected = torch.stack([pillow(image, value) for image, value in zip(images, strength.tolist(), strict=True)])
    difference = (found.int() - expected.int()).abs()
    if sampling == "nearest":  # a source exactly between two pixels may be taken from either
        assert (difference > 0).double().mean() < 5e-3
        return
    # Pillow cuts off what is below a grey level, in float64; a whole one may come out a little too small.
    assert difference.max() <= 1
    assert (difference > 0).double().mean() < 0.03


def test_cut_out_is_a_square_cut_off_at_the_border() -> None:
    images = noise(3, height=8, width=8) | 1  # no value is 0
    found = geometric.cut_out(images, torch.tensor([2, -2, 5]), torch.tensor([2, -2, 1]), 4)
    expected = images.clone()
    expected[0, :, 2:6, 2:6] = 0
    expected[1, :, :2, :2] = 0
    expected[2, :, 5:, 1:5] = 0
    assert torch.equal(found, expected)


@pytest.mark.parametrize(("side", "size"), [(32, (32, 32)), (64, (24, 32)), (20, (32, 16))])
def test_resized_crop_enlarges_and_reduces_as_torchvision(side: int, size: tuple[int, int]) -> None:
    images = noise(height=side, width=side)
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


def test_no_images_are_moved_to_no_images() -> None:
    nothing = torch.zeros(0)
    for name in ("translate_x", "shear_y", "rotate"):
        for sampling in ("nearest", "bilinear", "bicubic"):
            assert getattr(geometric, name)(noise(0), nothing, sampling=sampling).shape == (0, 3, 32, 32)
    assert geometric.shifted_crop(noise(0), nothing, nothing).shape == (0, 3, 32, 32)


def test_whole_image_at_its_own_size_is_unchanged() -> None:
    images = noise()
    zero, full = torch.zeros(40, dtype=torch.int64), torch.full((40,), 32)
    assert torch.equal(geometric.resized_crop(images, zero, zero, full, full, (32, 32)), images)
    assert torch.equal(geometric.rotate(images, torch.zeros(40)), images)
    assert torch.equal(geometric.shear_x(images, torch.zeros(40)), images)


def test_what_lies_outside_is_black_unless_told() -> None:
    images = noise(2) | 1  # no value is 0
    there = torch.full((2,), 40.0)  # beyond the image
    for move in (geometric.translate_x, geometric.translate_y):
        assert not move(images, there).any()
        assert not move(images, there, sampling="bilinear").any()


def test_scratch_of_a_resize_is_at_least_what_it_allocates() -> None:
    """Counted in float32: the images, those resized along one side and rounded, and the weights of both sides."""
    shape, size = torch.Size([4, 3, 64, 48]), (32, 24)
    lines, resized = 3 * 64 * 48, 3 * 64 * 24
    weights = 32 * 64 + 24 * 48
    found = geometric.resize_scratch_bytes(shape, size, torch.device("cpu"))
    assert found == 4 * 4 * (lines + 2 * resized + 4 * weights)
