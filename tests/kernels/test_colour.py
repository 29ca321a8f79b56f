"""The kernel of colours against photometric's functions, to the grey level; without a GPU, Triton interprets it."""

import inspect

import pytest
import torch
from tests.augment.pictures import noise, scenes
from torch import Tensor

pytest.importorskip("triton")

from proco.augment import photometric
from proco.kernels import colour
from proco.kernels.colour import CODES, colour_steps, serves

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
NOTHING = -1
SIZES = [(1, 1), (5, 7), (28, 28), (32, 32)]


@pytest.fixture(autouse=True)
def _fused_when_interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Triton's interpreter rounds a fused multiply-add twice; here once, by way of float64, as a GPU does."""
    if torch.cuda.is_available():
        return
    from triton.runtime import interpreter

    def fma(_: object, x, y, z):  # type: ignore[no-untyped-def]
        exact = x.data.astype("float64") * y.data + z.data
        return interpreter.TensorHandle(exact.astype(x.data.dtype), z.dtype.scalar)

    monkeypatch.setattr(interpreter.InterpreterBuilder, "create_fma", fma)


def pictures(height: int, width: int) -> Tensor:
    """Scenes, noise, pixels without hue, colours at the ends of the range, and flat images."""
    some = noise(4, 3, height, width)
    flat = torch.tensor([0, 255, 102], dtype=torch.uint8)[:, None, None, None].expand(3, 3, height, width)
    ends = (some > 127).to(torch.uint8) * 255
    return torch.cat([scenes(6, 3, height, width), some, some[:, :1].expand_as(some), ends, flat])


def strengths(name: str, count: int) -> Tensor:
    """From one end of what is allowed to the other, and what changes nothing."""
    low, middle, high = (-0.5, 0.0, 0.5) if name == "hue" else (0.0, 1.0, 2.5)
    return torch.cat([torch.linspace(low, high, count - 1), torch.tensor([middle])])


def changed(name: str, images: Tensor, strength: Tensor) -> Tensor:
    function = getattr(photometric, name)
    takes_strength = len(inspect.signature(function).parameters) == 2
    return function(images, strength) if takes_strength else function(images)  # type: ignore[no-any-return]


def changed_in_turn(images: Tensor, operation: Tensor, strength: Tensor) -> Tensor:
    """Image by image and step by step."""
    names = {code: name for name, code in CODES.items()}
    results = []
    for image, codes, amounts in zip(images.split(1), operation.tolist(), strength, strict=True):
        for code, amount in zip(codes, amounts.split(1), strict=True):
            image = changed(names[code], image, amount) if code in names else image
        results.append(image)
    return torch.cat(results)


def by_kernel(images: Tensor, operation: Tensor, strength: Tensor) -> Tensor:
    return colour_steps(images.to(DEVICE), operation.to(DEVICE, torch.int8), strength.to(DEVICE)).cpu()


def one_step(name: str, count: int) -> Tensor:
    return torch.full((count, 1), CODES[name])


def random_steps(count: int, num_steps: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(num_steps)
    operation = torch.randint(NOTHING, len(CODES), (count, num_steps), generator=generator)
    share = torch.rand(count, num_steps, generator=generator)
    return operation, torch.where(operation == CODES["hue"], share - 0.5, 2 * share)


@pytest.mark.parametrize(("height", "width"), SIZES)
@pytest.mark.parametrize("name", CODES)
def test_each_operation_is_that_of_photometric(name: str, height: int, width: int) -> None:
    images = pictures(height, width)
    strength = strengths(name, len(images))
    found = by_kernel(images, one_step(name, len(images)), strength[:, None])
    assert torch.equal(found, changed(name, images, strength))
    assert height * width == 1 or not torch.equal(found, images)


@pytest.mark.parametrize("name", CODES)
def test_torch_gives_the_same_on_every_device(name: str, device: torch.device) -> None:
    """With a power of two of pixels; with others a GPU of torch's has a mean that is rounded otherwise."""
    images = torch.cat([pictures(32, 32), pictures(32, 32).flip(0)])
    strength = strengths(name, len(images))
    found = by_kernel(images, one_step(name, len(images)), strength[:, None])
    assert torch.equal(found, changed(name, images.to(device), strength.to(device)).cpu())


@pytest.mark.parametrize(("height", "width"), SIZES)
@pytest.mark.parametrize("num_steps", [1, 2, 6])
def test_steps_follow_each_other_as_each_image_has_them(num_steps: int, height: int, width: int) -> None:
    images = pictures(height, width)
    operation, strength = random_steps(len(images), num_steps)
    found = by_kernel(images, operation, strength)
    assert torch.equal(found, changed_in_turn(images, operation, strength))


def test_largest_images() -> None:
    images = pictures(64, 64)[::5]
    operation, strength = random_steps(len(images), 8)
    assert torch.equal(by_kernel(images, operation, strength), changed_in_turn(images, operation, strength))


def colours_on_the_edge() -> Tensor:
    """All colours whose grey, were it not rounded, is a whole level: one rounding more and they fall below it."""
    levels = torch.arange(256)
    red, green, blue = torch.meshgrid(levels, levels, levels, indexing="ij")
    is_whole = (2989 * red + 5870 * green + 1140 * blue) % 10_000 == 0
    return torch.stack([red, green, blue])[:, is_whole].to(torch.uint8)  # (3, number)


@pytest.mark.parametrize("name", ["grayscale", "saturation"])
def test_grey_between_two_levels_falls_the_same_way(name: str, device: torch.device) -> None:
    colours = colours_on_the_edge()
    assert colours.shape[1] > 1000
    images = colours[:, : colours.shape[1] // 8 * 8].view(3, 8, -1)[None]
    strength = torch.zeros(1)
    found = by_kernel(images, one_step(name, 1), strength[:, None])
    assert torch.equal(found, changed(name, images.to(device), strength.to(device)).cpu())


def test_no_step_leaves_the_images() -> None:
    images = pictures(5, 7)
    nothing = torch.full((len(images), 3), NOTHING)
    assert torch.equal(by_kernel(images, nothing, torch.rand(nothing.shape)), images)
    assert torch.equal(by_kernel(images, nothing[:, :0], torch.rand(len(images), 0)), images)


@pytest.mark.parametrize(("height", "width"), [(5, 7), (32, 32)])
def test_memory_around_the_images_is_neither_written_nor_read(
    height: int, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    images = pictures(height, width)
    operation, strength = random_steps(len(images), 4)
    expected = changed_in_turn(images, operation, strength)
    size, around = images.numel(), 1025  # not aligned, as a part of a batch is not
    given = torch.full((size + 2 * around,), 255, dtype=torch.uint8, device=DEVICE)
    room = torch.full_like(given, 77)
    inside = slice(around, around + size)
    given[inside] = images.to(DEVICE).flatten()
    monkeypatch.setattr(colour.torch, "empty_like", lambda _: room[inside].view(images.shape))
    colour_steps(given[inside].view(images.shape), operation.to(DEVICE, torch.int8), strength.to(DEVICE))
    assert torch.equal(room[inside].cpu(), expected.flatten())
    assert torch.equal(given[inside].cpu(), images.flatten())
    for memory, value in ((given, 255), (room, 77)):
        assert (memory[:around] == value).all()
        assert (memory[around + size :] == value).all()


def test_what_lies_otherwise_in_memory_is_taken() -> None:
    images = pictures(5, 7)
    operation, strength = random_steps(len(images), 3)
    expected = by_kernel(images, operation, strength)
    across = (tensor.T.contiguous().T for tensor in (operation, strength))
    found = by_kernel(images.contiguous(memory_format=torch.channels_last), *across)
    assert torch.equal(found, expected)


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((2, 3, 64, 64), True),
        ((2, 3, 64, 65), False),
        ((2, 1, 32, 32), False),
        ((2, 4, 32, 32), False),
        ((0, 3, 32, 32), False),
        ((2, 3, 0, 32), False),
    ],
)
def test_small_images_of_three_channels_are_served(shape: tuple[int, ...], expected: bool) -> None:
    images = torch.zeros(shape, dtype=torch.uint8)
    assert serves(images) == expected
    assert not serves(images.float())
