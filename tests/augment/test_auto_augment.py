"""AutoAugment: the table, the strengths and the choices against torchvision's, the other version against Pillow."""

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance, ImageOps
from tests.augment.pictures import noise, scenes
from torch import Tensor
from torchvision.transforms import AutoAugmentPolicy, InterpolationMode, v2

from proco.augment.auto_augment import CIFAR10_POLICY, HIGHEST_LEVEL, MOVES, SPACES, Step, draw_auto_augment
from proco.augment.operations import NOTHING, OPERATIONS, Steps, apply_steps
from proco.augment.strength import strengths

THEIR_NAMES = {
    "auto_contrast": "AutoContrast",
    "saturation": "Color",
    "shear_x": "ShearX",
    "shear_y": "ShearY",
    "translate_x": "TranslateX",
    "translate_y": "TranslateY",
}


def their_name(operation: str) -> str:
    return THEIR_NAMES.get(operation, operation.capitalize())


def reference() -> v2.AutoAugment:
    return v2.AutoAugment(AutoAugmentPolicy.CIFAR10, interpolation=InterpolationMode.NEAREST, fill=128)


def test_policy_is_the_published_one() -> None:
    theirs = reference()._policies
    assert len(CIFAR10_POLICY) == len(theirs) == 25
    without_level = {"Invert", "AutoContrast", "Equalize"}
    for ours, pair in zip(CIFAR10_POLICY, theirs, strict=True):
        for step, (name, probability, level) in zip(ours, pair, strict=True):
            assert (their_name(step.operation), step.probability) == (name, probability)
            assert name in without_level or step.level == level
            assert step.operation in SPACES["torchvision"]


@pytest.mark.parametrize("operation", SPACES["torchvision"])
@pytest.mark.parametrize("is_negative", [False, True])
def test_every_level_of_every_operation_is_torchvisions(operation: str, is_negative: bool) -> None:
    images = torch.cat([noise(10), scenes(10)])
    theirs = reference()
    magnitudes_of, signed = theirs._AUGMENTATION_SPACE[their_name(operation)]
    index = torch.full((len(images), 1), OPERATIONS.index(operation))
    for level in range(HIGHEST_LEVEL + 1):
        share = torch.full(index.shape, level / HIGHEST_LEVEL, dtype=torch.float64)
        strength = strengths(SPACES["torchvision"], index, share, torch.full(index.shape, is_negative))
        found = apply_steps(images, Steps(index, strength), MOVES["torchvision"])
        magnitudes = magnitudes_of(10, 32, 32)
        magnitude = 0.0 if magnitudes is None else float(magnitudes[level])
        if signed and is_negative:
            magnitude = -magnitude

        def their_result(strength: float) -> Tensor:
            return theirs._apply_image_or_video_transform(  # type: ignore[no-any-return]
                images,
                their_name(operation),
                strength,
                interpolation=InterpolationMode.NEAREST,
                fill={torch.Tensor: 128},
            )

        if operation in ("shear_x", "shear_y", "rotate"):
            # A source exactly between two pixels may be taken from either: what a hair more or less of it gives.
            accepted = [their_result(magnitude + hair) for hair in (-1e-3, 0.0, 1e-3)]
            assert torch.stack([found == one for one in accepted]).any(dim=0).all()
        else:
            # Levels are tenths, which torchvision rounds to float32 before it adds 1. Blends often end on a whole grey
            # level, where such a rounding decides the side.
            accepted = [their_result(magnitude), their_result(round(magnitude, 5))]
            difference = torch.stack([(found.int() - one.int()).abs() for one in accepted]).amin(dim=0)
            assert difference.max() <= 1
            assert (difference > 0).double().mean() < 0.05


def official(picture: Image.Image, operation: str, level: int, sign: int) -> Image.Image:
    """Do what the official code does with an image, of a level of its own tables."""
    share, size, grey = level / HIGHEST_LEVEL, picture.size, (128, 128, 128)
    affine, factor = Image.Transform.AFFINE, 1 + sign * 0.9 * share
    if operation in ("translate_x", "translate_y"):
        source = -sign * share * 150 / 331 * 32
        corners = (1, 0, source, 0, 1, 0) if operation == "translate_x" else (1, 0, 0, 0, 1, source)
        return picture.transform(size, affine, corners, fillcolor=grey)
    if operation == "shear_y":
        return picture.transform(
            size, affine, (1, 0, 0, sign * 0.3 * share, 1, 0), Image.Resampling.BICUBIC, fillcolor=grey
        )
    if operation == "rotate":  # never the other way
        turned = picture.convert("RGBA").rotate(30 * share)
        return Image.composite(turned, Image.new("RGBA", size, (128,) * 4), turned).convert("RGB")
    if operation == "solarize":
        return ImageOps.solarize(picture, float(np.linspace(256, 0, 10)[level]))  # type: ignore[arg-type]
    if operation == "posterize":
        return ImageOps.posterize(picture, int(np.round(np.linspace(8, 4, 10))[level]))
    enhancers = {
        "saturation": ImageEnhance.Color,
        "contrast": ImageEnhance.Contrast,
        "brightness": ImageEnhance.Brightness,
        "sharpness": ImageEnhance.Sharpness,
    }
    if operation in enhancers:
        return enhancers[operation](picture).enhance(factor)
    whole = {"auto_contrast": ImageOps.autocontrast, "equalize": ImageOps.equalize, "invert": ImageOps.invert}
    return whole[operation](picture)


@pytest.mark.parametrize("step", sorted({step for pair in CIFAR10_POLICY for step in pair}))
@pytest.mark.parametrize("is_negative", [False, True])
def test_the_official_version_does_what_the_official_code_does(step: Step, is_negative: bool) -> None:
    images = torch.cat([noise(10), scenes(10)])
    index = torch.full((len(images), 1), OPERATIONS.index(step.operation))
    share = torch.full(index.shape, step.level / HIGHEST_LEVEL, dtype=torch.float64)
    strength = strengths(SPACES["official"], index, share, torch.full(index.shape, is_negative))
    found = apply_steps(images, Steps(index, strength), MOVES["official"])
    pictures = [Image.fromarray(image.permute(1, 2, 0).numpy()) for image in images]
    changed = [official(picture, step.operation, step.level, -1 if is_negative else 1) for picture in pictures]
    expected = torch.stack([torch.from_numpy(np.array(picture)).permute(2, 0, 1) for picture in changed])
    difference = (found.int() - expected.int()).abs()
    if step.operation == "rotate":  # a source exactly between two pixels may be taken from either
        assert (difference > 0).double().mean() < 2e-3
    else:  # Pillow cuts off parts of a grey level where torchvision rounds, and the other way round
        assert difference.max() <= 1
    if step.operation.startswith(("translate", "shear")):
        assert (difference > 0).double().mean() < 0.03


def test_what_the_versions_differ_in() -> None:
    ours, theirs = (draw_auto_augment(20_000, torch.Generator().manual_seed(1), version) for version in SPACES)
    assert torch.equal(ours.operation, theirs.operation)
    others = ours.operation[(ours.strength != theirs.strength) & (ours.operation != NOTHING)].unique().tolist()
    assert sorted(OPERATIONS[index] for index in others) == ["rotate", "solarize"]
    is_turned = theirs.operation == OPERATIONS.index("rotate")
    assert theirs.strength[is_turned].unique().tolist() == pytest.approx([30 * 2 / 9])  # one way only
    images = scenes(20)
    for name, strength in (("translate_x", 150 / 331), ("shear_y", 0.3)):
        steps = Steps(torch.full((20, 1), OPERATIONS.index(name)), torch.full((20, 1), strength))
        assert not torch.equal(*(apply_steps(images, steps, moves) for moves in MOVES.values()))


def test_choices_follow_the_table() -> None:
    size = 200_000
    steps = draw_auto_augment(size, torch.Generator().manual_seed(0))
    for index, name in enumerate(OPERATIONS):
        for step in range(2):
            expected = sum(pair[step].probability for pair in CIFAR10_POLICY if pair[step].operation == name) / 25
            found = (steps.operation[:, step] == index).double().mean().item()
            assert abs(found - expected) < 5 * (expected * (1 - expected) / size) ** 0.5 + 1e-12
    # The two steps of an image belong to one pair: solarize is followed by nothing, auto-contrast or (never) invert.
    after_solarize = steps.operation[steps.operation[:, 0] == OPERATIONS.index("solarize"), 1].unique().tolist()
    assert after_solarize == [NOTHING, OPERATIONS.index("auto_contrast")]


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        ("rotate", [-30 * 2 / 9, 30 * 2 / 9]),
        ("contrast", [1 - 0.7, 1 - 0.6, 1 + 0.6, 1 + 0.7]),
        ("translate_x", [-150 / 331, -150 / 331 * 8 / 9, 150 / 331 * 8 / 9, 150 / 331]),
        ("posterize", [8 - 4 * 7 / 9]),
        ("solarize", [255 * 1 / 9, 255 * 4 / 9, 255 * 6 / 9, 255 * 7 / 9]),
    ],
)
def test_strengths_are_those_of_the_levels_with_both_signs(operation: str, expected: list[float]) -> None:
    steps = draw_auto_augment(20_000, torch.Generator().manual_seed(1))
    found, counts = steps.strength[steps.operation == OPERATIONS.index(operation)].unique(return_counts=True)
    torch.testing.assert_close(found, torch.tensor(expected))
    if operation != "solarize":  # as many of a sign as of the other
        mirrored = counts.flip(0)
        assert ((counts - mirrored).abs() < 5 * (counts + mirrored).sqrt()).all()


@pytest.mark.parametrize("operation", ["rotate", "contrast", "translate_x", "translate_y", "shear_y"])
def test_half_of_the_strengths_are_negative(operation: str) -> None:
    steps = draw_auto_augment(200_000, torch.Generator().manual_seed(1))
    strength = steps.strength[steps.operation == OPERATIONS.index(operation)]
    is_negative = strength < (1 if operation == "contrast" else 0)
    assert abs(is_negative.double().mean().item() - 0.5) < 5 * (0.25 / len(strength)) ** 0.5


def test_moves_up_and_down_go_as_far_as_those_to_the_sides() -> None:
    steps = draw_auto_augment(20_000, torch.Generator().manual_seed(1))
    for name in ("translate_x", "translate_y"):
        share = steps.strength[steps.operation == OPERATIONS.index(name)]
        torch.testing.assert_close(share.abs().max(), torch.tensor(150 / 331))
