"""AutoAugment: the table, the strengths and the choices against torchvision's."""

import pytest
import torch
from torchvision.transforms import AutoAugmentPolicy, InterpolationMode, v2

from proco.augment.auto_augment import CIFAR10_POLICY, OPERATIONS, Choices, auto_augment, draw

THEIR_NAMES = {
    "auto_contrast": "AutoContrast",
    "shear_x": "ShearX",
    "shear_y": "ShearY",
    "translate_x": "TranslateX",
    "translate_y": "TranslateY",
}


def their_name(operation: str) -> str:
    return THEIR_NAMES.get(operation, operation.capitalize())


def reference() -> v2.AutoAugment:
    return v2.AutoAugment(AutoAugmentPolicy.CIFAR10, interpolation=InterpolationMode.NEAREST, fill=128)


def pictures(count: int = 20) -> torch.Tensor:
    return torch.randint(256, (count, 3, 32, 32), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


def test_policy_is_the_published_one() -> None:
    theirs = reference()._policies
    assert len(CIFAR10_POLICY) == len(theirs) == 25
    without_level = {"Invert", "AutoContrast", "Equalize"}
    for ours, pair in zip(CIFAR10_POLICY, theirs, strict=True):
        for step, (name, probability, level) in zip(ours, pair, strict=True):
            assert (their_name(step.operation), step.probability) == (name, probability)
            assert name in without_level or step.level == level


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("is_negative", [False, True])
def test_every_level_of_every_operation_is_torchvisions(operation: str, is_negative: bool) -> None:
    images = pictures()
    theirs = reference()
    magnitudes_of, signed = theirs._AUGMENTATION_SPACE[their_name(operation)]
    for level in range(10):
        choices = Choices(
            operation=torch.tensor([[OPERATIONS.index(operation), -1]]).expand(len(images), 2),
            level=torch.full((len(images), 2), level),
            is_negative=torch.full((len(images), 2), is_negative),
        )
        found = auto_augment(images, choices)
        magnitudes = magnitudes_of(10, 32, 32)
        magnitude = 0.0 if magnitudes is None else float(magnitudes[level])
        if signed and is_negative:
            magnitude = -magnitude

        def their_result(strength: float) -> torch.Tensor:
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
            difference = (found.int() - their_result(magnitude).int()).abs()
            assert difference.max() <= 1
            # Levels are tenths: blends often end on a whole grey level, where one rounding or two decide the side.
            assert (difference > 0).double().mean() < 0.05


def test_steps_follow_each_other() -> None:
    images = pictures()
    first, second = OPERATIONS.index("solarize"), OPERATIONS.index("posterize")
    level, sign = torch.full((20, 2), 7), torch.zeros(20, 2, dtype=torch.bool)

    def steps(one: int, two: int) -> Choices:
        return Choices(torch.tensor([[one, two]]).expand(20, 2), level, sign)

    together = auto_augment(images, steps(first, second))
    assert torch.equal(together, auto_augment(auto_augment(images, steps(first, -1)), steps(second, -1)))
    assert not torch.equal(together, auto_augment(images, steps(second, first)))
    assert torch.equal(auto_augment(images, steps(-1, -1)), images)


def test_choices_follow_the_table() -> None:
    size = 200_000
    choices = draw(size, torch.Generator().manual_seed(0))
    for index, name in enumerate(OPERATIONS):
        for step in range(2):
            expected = sum(pair[step].probability for pair in CIFAR10_POLICY if pair[step].operation == name) / 25
            found = (choices.operation[:, step] == index).double().mean().item()
            assert abs(found - expected) < 5 * (expected * (1 - expected) / size) ** 0.5 + 1e-12
    assert abs(choices.is_negative.double().mean().item() - 0.5) < 0.01
    # The two steps of an image belong to one pair: solarize is followed by nothing, auto-contrast or (never) invert.
    after_solarize = choices.operation[choices.operation[:, 0] == OPERATIONS.index("solarize"), 1].unique().tolist()
    assert after_solarize == [-1, OPERATIONS.index("auto_contrast")]


def test_same_seed_gives_the_same_choices() -> None:
    first, second, other = (draw(50, torch.Generator().manual_seed(seed)) for seed in (3, 3, 4))
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    assert not torch.equal(first.operation, other.operation)
