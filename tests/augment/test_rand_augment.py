"""RandAugment against timm's own objects, and FixMatch's pool against its table."""

import random

import numpy as np
import pytest
import torch
from PIL import Image
from scipy.stats import ks_2samp
from tests.augment.pictures import scenes
from timm.data.auto_augment import AugmentOp, RandAugment, rand_augment_transform
from torch import Tensor

from proco.augment.operations import NOTHING, OPERATIONS, Moves, Steps, apply_steps
from proco.augment.rand_augment import (
    FIXMATCH_SPACE,
    TIMM_SPACE,
    draw_fixmatch_augment,
    draw_timm_augment,
)
from proco.augment.strength import strengths

FILL = (124, 116, 104)
OUR_NAMES = {
    "AutoContrast": "auto_contrast",
    "Color": "saturation",
    "ShearX": "shear_x",
    "ShearY": "shear_y",
    "SolarizeAdd": "solarize_add",
    "TranslateXRel": "translate_x",
    "TranslateYRel": "translate_y",
}
WITHOUT_STRENGTH = {"auto_contrast", "equalize", "invert"}


def timm() -> RandAugment:
    return rand_augment_transform(
        "rand-n2-m10-mstd0.5",
        {"translate_const": 100, "img_mean": FILL, "interpolation": Image.Resampling.BILINEAR},
    )


def timm_operations() -> dict[str, AugmentOp]:
    return {OUR_NAMES.get(operation.name, operation.name.lower()): operation for operation in timm().ops}


def drawn(size: int, **changes: float) -> Steps:
    settings = {"num_steps": 2, "magnitude": 10.0, "magnitude_noise": 0.5, **changes}
    return draw_timm_augment(size, torch.Generator().manual_seed(0), **settings)  # type: ignore[arg-type]


def test_pool_is_timms() -> None:
    theirs = timm()
    assert set(timm_operations()) == set(TIMM_SPACE)
    assert len(theirs.ops) == len(TIMM_SPACE)
    assert {operation.prob for operation in theirs.ops} == {0.5}
    assert theirs.num_layers == 2
    assert theirs.choice_weights is None  # even, with replacement


@pytest.mark.parametrize("name", sorted(set(TIMM_SPACE) - WITHOUT_STRENGTH))
def test_every_level_means_what_it_means_to_timm(name: str) -> None:
    operation = timm_operations()[name]
    index = torch.tensor([[OPERATIONS.index(name)]])
    for level in np.linspace(0, 10, 41):
        (theirs,) = operation.level_fn(level, operation.hparams)
        share = torch.tensor([[level / 10]], dtype=torch.float64)
        ours = {strengths(TIMM_SPACE, index, share, torch.tensor([[sign]])).item() for sign in (False, True)}
        scale = TIMM_SPACE[name]
        assert scale is not None
        expected = {theirs, -theirs} if scale.is_signed else {theirs}
        assert sorted(ours) == pytest.approx(sorted(expected), rel=1e-6)


def test_operations_are_drawn_evenly_and_half_are_taken() -> None:
    size = 100_000
    steps = drawn(size)
    share = 0.5 / len(TIMM_SPACE)
    tolerance = 5 * (share / size) ** 0.5
    for name in TIMM_SPACE:
        is_chosen = steps.operation == OPERATIONS.index(name)
        assert ((is_chosen.double().mean(dim=0) - share).abs() < tolerance).all()
        # Also twice in a row: with replacement.
        assert abs(is_chosen.all(dim=1).double().mean().item() - share**2) < 5 * share / size**0.5
    assert ((steps.operation == NOTHING).double().mean(dim=0) - 0.5).abs().max() < 5 * (0.25 / size) ** 0.5


@pytest.mark.parametrize("name", sorted(set(TIMM_SPACE) - WITHOUT_STRENGTH))
def test_strengths_are_distributed_as_timms(name: str) -> None:
    operation = timm_operations()[name]
    theirs: list[float] = []
    operation.prob = 1.0
    operation.aug_fn = lambda image, strength, **_: theirs.append(strength)
    random.seed(0)
    for _ in range(3000):
        operation(None)
    steps = drawn(60_000)
    ours = steps.strength[steps.operation == OPERATIONS.index(name)]
    assert ks_2samp(ours.numpy(), np.array(theirs, dtype=np.float32)).pvalue > 1e-4


def test_noise_and_magnitude_can_be_set() -> None:
    steps = drawn(20_000, magnitude=5.0, magnitude_noise=0.0)
    angles = steps.strength[steps.operation == OPERATIONS.index("rotate")]
    assert angles.unique().tolist() == [-15.0, 15.0]
    assert drawn(10, num_steps=3).operation.shape == (10, 3)


@pytest.mark.parametrize("name", sorted(TIMM_SPACE))
@pytest.mark.parametrize("level", [3.0, 7.3, 10.0])
def test_images_are_timms(name: str, level: float) -> None:
    """timm works on Pillow's images, so this is an implementation apart."""
    images = scenes(12, 3, 32, 40)
    operation = timm_operations()[name]
    strength = 0.0 if name in WITHOUT_STRENGTH else operation.level_fn(level, operation.hparams)[0]

    def theirs(image: Tensor) -> Tensor:
        arguments = () if name in WITHOUT_STRENGTH else (strength,)
        changed = operation.aug_fn(Image.fromarray(image.permute(1, 2, 0).numpy()), *arguments, **operation.kwargs)
        return torch.from_numpy(np.array(changed)).permute(2, 0, 1)

    ours = -strength if name.startswith("translate") else strength  # theirs is to the left, and up
    steps = Steps(torch.full((12, 1), OPERATIONS.index(name)), torch.full((12, 1), float(ours)))
    found = apply_steps(images, steps, Moves(FILL, "bilinear", "bilinear", by_whole_pixels=False))
    difference = (found.int() - torch.stack([theirs(image) for image in images]).int()).abs()
    # Pillow rounds the mean grey of an image and its grey values in its own way.
    assert difference.max() <= 2
    assert difference.double().mean() < 0.5


FIXMATCH_TABLE = {
    "brightness": [0.05 + 0.09 * level for level in range(1, 10)],
    "contrast": [0.05 + 0.09 * level for level in range(1, 10)],
    "saturation": [0.05 + 0.09 * level for level in range(1, 10)],
    "sharpness": [0.05 + 0.09 * level for level in range(1, 10)],
    "posterize": [4, 5, 6, 7],
    "rotate": [sign * 3 * level for level in range(1, 10) for sign in (1, -1)],
    "shear_x": [sign * 0.03 * level for level in range(1, 10) for sign in (1, -1)],
    "shear_y": [sign * 0.03 * level for level in range(1, 10) for sign in (1, -1)],
    "solarize": [231, 205, 180, 154, 128, 103, 77, 52, 26],
    "translate_x": [sign * 0.03 * level for level in range(1, 10) for sign in (1, -1)],
    "translate_y": [sign * 0.03 * level for level in range(1, 10) for sign in (1, -1)],
}


def test_fixmatch_draws_evenly_from_its_pool() -> None:
    size = 100_000
    steps = draw_fixmatch_augment(size, torch.Generator().manual_seed(0), num_steps=2)
    assert len(FIXMATCH_SPACE) == 14
    assert set(FIXMATCH_SPACE) == {*FIXMATCH_TABLE, "auto_contrast", "equalize", "identity"}
    share = 0.5 / 14
    tolerance = 5 * (share / size) ** 0.5
    for name in set(FIXMATCH_SPACE) - {"identity"}:
        found = (steps.operation == OPERATIONS.index(name)).double().mean(dim=0)
        assert ((found - share).abs() < tolerance).all()
    # Not taken, or taken and the identity.
    found = (steps.operation == NOTHING).double().mean(dim=0)
    assert ((found - (0.5 + share)).abs() < 5 * (0.25 / size) ** 0.5).all()


@pytest.mark.parametrize("name", FIXMATCH_TABLE)
def test_fixmatch_strengths_are_those_of_its_table(name: str) -> None:
    steps = draw_fixmatch_augment(100_000, torch.Generator().manual_seed(1), num_steps=2)
    found, counts = steps.strength[steps.operation == OPERATIONS.index(name)].unique(return_counts=True)
    torch.testing.assert_close(found, torch.tensor(sorted(FIXMATCH_TABLE[name]), dtype=torch.float32))
    if name != "posterize":  # there several levels keep as many bits
        mean = counts.double().mean()
        assert ((counts - mean).abs() < 5 * mean.sqrt()).all()


def test_levels_are_cut_off_at_zero() -> None:
    steps = draw_timm_augment(20_000, torch.Generator().manual_seed(0), num_steps=2, magnitude=0.0, magnitude_noise=0.5)
    factor = steps.strength[steps.operation == OPERATIONS.index("saturation")]
    assert factor.min().item() == torch.tensor(0.1).item()
    assert (factor > 0.1 + 1e-6).any()
