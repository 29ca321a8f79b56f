"""What holds for every registered view; and each view as a whole against torchvision and Pillow."""

import ast
import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from PIL import Image, ImageDraw
from tests.augment.pictures import noise, scenes
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torchvision.transforms.v2 import functional as reference

import proco.augment
from proco.augment import (
    Auto,
    CentreWindow,
    Plain,
    Rand,
    RandomWindow,
    Sim,
    Strong,
    View,
    Weak,
    geometric,
    select,
    to_device,
)
from proco.augment.operations import NOTHING, OPERATIONS, Moves, Steps, apply_steps
from proco.augment.weak import WeakChoices
from proco.config import as_settings, merge
from proco.errors import ConfigError

# As they come, and with what is off by default.
VIEWS = [*(View.registry[name]() for name in View.registry), Sim(blur=0.5), Weak(pad_mode="reflect")]
WITH_FLIP = [name for name in View.registry if name != "plain"]


def bilinear(fill: geometric.Fill) -> Moves:
    return Moves(fill, "bilinear", "bilinear", by_whole_pixels=False)


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def tensors(choices: Any) -> list[Tensor]:
    return [choices] if isinstance(choices, Tensor) else [one for part in choices for one in tensors(part)]


def test_importing_the_package_registers_every_view() -> None:
    folder = Path(proco.augment.__file__).parent
    announced = set()
    for path in folder.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "View.registry.register":
                announced.add(ast.literal_eval(node.args[0]))
    assert announced == set(View.registry) == {"auto", "plain", "rand", "sim", "strong", "weak"}


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize(("height", "width"), [(28, 28), (32, 32), (24, 40), (64, 64), (224, 224)])
@pytest.mark.parametrize("view", VIEWS, ids=str)
def test_views_have_the_shape_of_the_images_and_leave_them_alone(
    view: View, height: int, width: int, channels: int
) -> None:
    images = scenes(12, channels, height, width)
    before = images.clone()
    found = view.apply(images, view.draw(12, seeded()))
    assert found.shape == images.shape
    assert found.dtype == torch.uint8
    assert found.is_contiguous()
    assert torch.equal(images, before)
    found.zero_()
    assert torch.equal(images, before)


@pytest.mark.parametrize("view", VIEWS, ids=str)
def test_choices_have_a_row_for_each_image_and_follow_the_seed(view: View) -> None:
    first, second, other = (tensors(view.draw(30, seeded(seed))) for seed in (3, 3, 4))
    assert all(len(tensor) == 30 for tensor in first)
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    if first:
        assert not all(torch.equal(a, b) for a, b in zip(first, other, strict=True))


@pytest.mark.parametrize("view", VIEWS, ids=str)
def test_batches_can_be_cut_and_shuffled(view: View) -> None:
    images = scenes(100)
    choices = view.draw(100, seeded())
    whole = view.apply(images, choices)
    for size in (1, 7, 64):
        starts = range(0, 100 if size > 1 else 10, size)
        parts = [view.apply(images[i : i + size], select(choices, slice(i, i + size))) for i in starts]
        assert torch.equal(torch.cat(parts), whole[: len(torch.cat(parts))])
    order = torch.randperm(100, generator=seeded(1))
    assert torch.equal(view.apply(images[order], select(choices, order)), whole[order])


@pytest.mark.parametrize("view", VIEWS, ids=str)
def test_views_are_the_same_on_every_device(view: View, device: torch.device) -> None:
    images = scenes(200)
    choices = view.draw(200, seeded())
    found = view.apply(images.to(device), to_device(choices, device)).cpu()
    difference = (found.int() - view.apply(images, choices).int()).abs()
    assert (difference > 1).double().mean() < 1e-3


@pytest.mark.parametrize("view", VIEWS, ids=str)
def test_nothing_in_apply_depends_on_the_host(view: View) -> None:
    """Reading a tensor, or making one from numbers, would make a GPU wait; only the sizes of groups are read, once."""

    class Recorder(TorchDispatchMode):
        names: ClassVar[set[str]] = set()

        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            self.names.add(function.overloadpacket.__name__)
            return function(*args, **(kwargs or {}))

    choices = view.draw(300, seeded())
    with Recorder() as recorder:
        view.apply(scenes(300), choices)
    assert not recorder.names & {"lift_fresh", "_local_scalar_dense", "nonzero", "masked_select", "is_nonzero"}


@pytest.mark.parametrize("name", WITH_FLIP)
def test_flip_mirrors_half_of_the_images_or_none(name: str) -> None:
    kind = View.registry[name]
    no_shift = {"padding": 0} if "padding" in {field.name for field in dataclasses.fields(kind)} else {}
    with_flip, without = kind(**no_shift), kind(flip=False, **no_shift)
    images = noise(200)
    choices, upright = with_flip.draw(200, seeded()), without.draw(200, seeded())
    is_flipped = getattr(choices, "weak", choices).is_flipped
    assert abs(is_flipped.double().mean().item() - 0.5) < 5 * (0.25 / 200) ** 0.5
    assert not getattr(upright, "weak", upright).is_flipped.any()
    # The other choices are the same, so mirroring beforehand what the one view mirrors makes up for it.
    mirrored = torch.stack([image.flip(2) if f else image for image, f in zip(images, is_flipped, strict=True)])
    assert torch.equal(with_flip.apply(images, choices), without.apply(mirrored, upright))


@dataclass(frozen=True, kw_only=True)
class Config:
    view: View


@pytest.mark.parametrize("view", VIEWS, ids=str)
def test_settings_make_the_round_trip(view: View) -> None:
    assert merge(Config, as_settings(Config(view=view))) == Config(view=view)


def test_settings_are_read_from_a_recipe() -> None:
    read = merge(Config, {"view": {"name": "sim", "scale": [0.2, 1], "blur": 0.5, "flip": False}}).view
    assert read == Sim(scale=(0.2, 1.0), blur=0.5, flip=False)
    assert read.window == RandomWindow(scale=(0.2, 1.0))
    assert merge(Config, {"view": {"name": "plain", "share": 0.875}}).view.window == CentreWindow(0.875)
    assert merge(Config, {"view": {"name": "weak", "pad_mode": "reflect"}}).view == Weak(pad_mode="reflect")
    assert Auto().window == CentreWindow()
    assert Rand().window == RandomWindow((0.08, 1.0))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"name": "sim", "scale": [1.0, 0.2]}, "scale must be a pair of shares"),
        ({"name": "sim", "blur": 2.0}, "blur must be a probability"),
        ({"name": "plain", "share": 0.0}, "share must lie in"),
        ({"name": "weak", "padding": -1}, "padding must be 0, which turns it off"),
        ({"name": "auto", "padding": -1}, "padding must be 0, which turns it off"),
        ({"name": "strong", "cutout": -2}, "cutout must be 0, which turns it off"),
        ({"name": "rand", "num_steps": -1}, "num_steps must be 0"),
        ({"name": "rand", "magnitude": 11.0}, "magnitude must be a level"),
        ({"name": "rand", "magnitude": -1.0}, "magnitude must be a level"),
        ({"name": "rand", "magnitude_noise": -0.5}, "magnitude_noise must be 0"),
        ({"name": "strong", "num_steps": -1}, "num_steps must be 0"),
        ({"name": "auto", "cutout": -1}, "cutout must be 0"),
        ({"name": "weak", "pad_mode": "white"}, "'zero' or 'reflect'"),
    ],
)
def test_wrong_settings_are_refused_early(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        merge(Config, {"view": settings})


def test_plain_is_the_image() -> None:
    images = noise()
    assert torch.equal(Plain().apply(images, Plain().draw(40, seeded())), images)


def expected_weak(image: Tensor, choices: Any, i: int, mode: str) -> Tensor:
    top, left = 4 + int(choices.top[i]), 4 + int(choices.left[i])
    view = reference.pad(image, [4, 4], padding_mode=mode)[:, top : top + 32, left : left + 32]
    return reference.horizontal_flip(view) if choices.is_flipped[i] else view


@pytest.mark.parametrize(("pad_mode", "their_mode"), [("zero", "constant"), ("reflect", "reflect")])
def test_weak_is_a_crop_with_padding_and_a_flip(pad_mode: geometric.PadMode, their_mode: str) -> None:
    images = noise()
    view = Weak(pad_mode=pad_mode)
    choices = view.draw(40, seeded())
    expected = [expected_weak(image, choices, i, their_mode) for i, image in enumerate(images)]
    assert torch.equal(view.apply(images, choices), torch.stack(expected))
    many = view.draw(90_000, seeded(1))
    for shift in (many.top, many.left):
        values, counts = shift.unique(return_counts=True)
        assert values.tolist() == list(range(-4, 5))
        assert (counts - 10_000).abs().max() < 5 * 100


def test_auto_is_weak_then_the_policy_then_a_black_hole() -> None:
    images = noise() | 1  # no value is 0
    view = Auto()
    choices = view.draw(40, seeded())
    found = view.apply(images, choices)
    for i, image in enumerate(images):
        expected = expected_weak(image, choices.weak, i, "constant")
        expected = apply_steps(expected[None], select(choices.steps, slice(i, i + 1)), Moves(fill=128))[0]
        row, column = (int(u * 32) for u in choices.hole[i].tolist())
        expected[:, max(0, row - 8) : row + 8, max(0, column - 8) : column + 8] = 0
        assert torch.equal(found[i], expected)
    centres = (view.draw(32_000, seeded(1)).hole * 32).long()
    assert centres[:, 0].unique().tolist() == centres[:, 1].unique().tolist() == list(range(32))
    assert torch.equal(
        Auto(cutout=0).apply(images, choices),
        apply_steps(Weak().apply(images, choices.weak), choices.steps, Moves(fill=128)),
    )
    assert torch.equal(Auto(cutout=0, policy=False).apply(images, choices), Weak().apply(images, choices.weak))


JITTERS = {
    "brightness": reference.adjust_brightness,
    "contrast": reference.adjust_contrast,
    "saturation": reference.adjust_saturation,
    "hue": reference.adjust_hue,
    "grayscale": lambda image, _: reference.rgb_to_grayscale(image, 3),
    "blur": lambda image, sigma: reference.gaussian_blur(image, [3, 3], [sigma]),
}


def expected_jitters(view: Tensor, steps: Steps, i: int) -> Tensor:
    for operation, strength in zip(steps.operation[i].tolist(), steps.strength[i].tolist(), strict=True):
        if operation != NOTHING:
            view = JITTERS[OPERATIONS[operation]](view, strength)
    return view


def test_sim_is_torchvisions_with_the_same_choices() -> None:
    images = noise(60)
    view = Sim(blur=0.5)
    randoms, choices = view.window.draw(60, seeded(1)), view.draw(60, seeded())
    boxes = view.window.boxes(randoms, 32, 32)
    found = view.apply(geometric.resized_crop(images, *boxes, (32, 32)), choices)
    worst = []
    for i, image in enumerate(images):
        expected = reference.resized_crop(image, *(int(part[i]) for part in boxes), [32, 32], antialias=True)
        if choices.is_flipped[i]:
            expected = reference.horizontal_flip(expected)
        expected = expected_jitters(expected, choices.steps, i)
        worst.append((found[i].int() - expected.int()).abs().double().mean().item())
    # One grey level after the crop can become a few after four blends; on average nothing is left of it.
    assert max(worst) < 0.1


def test_sim_draws_each_step_with_its_probability() -> None:
    size = 50_000

    def share(view: Sim, name: str) -> float:
        steps = view.draw(size, seeded(2)).steps
        return (steps.operation == OPERATIONS.index(name)).any(dim=1).double().mean().item()

    for name, expected in (("brightness", 0.8), ("hue", 0.8), ("grayscale", 0.2), ("blur", 0.0)):
        assert abs(share(Sim(), name) - expected) < 0.01
    assert abs(share(Sim(blur=0.5), "blur") - 0.5) < 0.01
    steps = Sim(blur=0.5).draw(size, seeded(2)).steps
    sigma = steps.strength[steps.operation == OPERATIONS.index("blur")]
    assert 0.1 <= sigma.min() < 0.11
    assert 1.99 < sigma.max() <= 2.0
    # Jitters first, then grey, then blur.
    assert set(steps.operation[:, 4].tolist()) == {NOTHING, OPERATIONS.index("grayscale")}
    assert set(steps.operation[:, 5].tolist()) == {NOTHING, OPERATIONS.index("blur")}


def test_rand_is_flip_jitter_and_then_the_operations() -> None:
    images = scenes(60)
    view = Rand()
    choices = view.draw(60, seeded())
    found = view.apply(images, choices)
    jitters, operations = (
        Steps(*(part[:, columns] for part in choices.steps)) for columns in (slice(3), slice(3, None))
    )
    assert (jitters.operation != NOTHING).all()
    assert operations.operation.shape == (60, 2)
    for i, image in enumerate(images):
        expected = reference.horizontal_flip(image) if choices.is_flipped[i] else image
        expected = expected_jitters(expected, jitters, i)
        if (operations.operation[i] == NOTHING).all():
            assert (found[i].int() - expected.int()).abs().max() <= 2
    alone = apply_steps(geometric.flip(images, choices.is_flipped), jitters)
    assert torch.equal(found, apply_steps(alone, operations, bilinear((124, 116, 104))))


def test_strong_ends_with_a_grey_hole_as_pillow_draws_it() -> None:
    images = noise() | 128  # no value is 127
    view = Strong(num_steps=0)
    choices = view.draw(40, seeded())
    found = view.apply(images, choices)
    for i, image in enumerate(images):
        picture = Image.fromarray(
            expected_weak(image, choices.weak, i, "reflect").permute(1, 2, 0).contiguous().numpy()
        )
        top, left = (int(max(0, u * 32 - 8)) for u in choices.hole[i].tolist())
        box = (left, top, int(min(32, left + 16)), int(min(32, top + 16)))
        ImageDraw.Draw(picture).rectangle(box, (127, 127, 127))
        assert torch.equal(found[i], torch.from_numpy(np.array(picture)).permute(2, 0, 1))


def test_strong_changes_the_weak_view_by_its_steps() -> None:
    images = scenes(60)
    view = Strong(cutout=0)
    choices = view.draw(60, seeded())
    weak = Weak(pad_mode="reflect").apply(images, choices.weak)
    assert torch.equal(view.apply(images, choices), apply_steps(weak, choices.steps))


def test_sim_has_the_strengths_of_the_official_code() -> None:
    assert Sim().window == RandomWindow(scale=(0.08, 1.0), ratio=(3 / 4, 4 / 3))
    steps = Sim().draw(20_000, seeded()).steps
    ranges = {"brightness": (0.6, 1.4), "contrast": (0.6, 1.4), "saturation": (0.6, 1.4), "hue": (-0.1, 0.1)}
    for name, (low, high) in ranges.items():
        strength = steps.strength[steps.operation == OPERATIONS.index(name)]
        edge = 0.01 * (high - low)
        assert low - 1e-6 <= strength.min() < low + edge
        assert high - edge < strength.max() <= high + 1e-6


def test_auto_shifts_by_up_to_four_pixels() -> None:
    weak = Auto().draw(20_000, seeded()).weak
    assert weak.top.unique().tolist() == weak.left.unique().tolist() == list(range(-4, 5))


def test_a_hole_of_odd_width_is_as_wide_as_asked_for() -> None:
    view = Auto(padding=0, flip=False, policy=False, cutout=5)
    images = torch.full((1, 1, 9, 9), 7, dtype=torch.uint8)
    expected = images.clone()
    expected[:, :, 2:7, 2:7] = 0
    choices = view.draw(1, seeded())._replace(hole=torch.tensor([[0.5, 0.5]]))
    assert torch.equal(view.apply(images, choices), expected)


def test_rand_has_the_strengths_of_the_official_code() -> None:
    steps = Rand().draw(20_000, seeded()).steps
    assert steps.operation.shape == (20_000, 5)  # three jitters and two operations
    for name in ("brightness", "contrast", "saturation"):
        strength = steps.strength[:, :3][steps.operation[:, :3] == OPERATIONS.index(name)]
        assert 0.6 - 1e-6 <= strength.min() < 0.61
        assert 1.39 < strength.max() <= 1.4 + 1e-6
    # Levels are normal about 10 with deviation 0.5, cut off at 10: half of them are 10, the median of the others
    # lies 0.6745 deviations below.
    angle = steps.strength[:, 3:][steps.operation[:, 3:] == OPERATIONS.index("rotate")].abs()
    assert (angle == 30).double().mean().item() == pytest.approx(0.5, abs=0.08)
    assert angle[angle < 30].median().item() == pytest.approx(3 * (10 - 0.6745 * 0.5), abs=0.15)


def test_settings_of_rand_reach_its_operations_and_its_window() -> None:
    view = Rand(scale=(0.3, 0.5), num_steps=3, magnitude=5.0, magnitude_noise=0.0)
    steps = view.draw(5000, seeded()).steps
    assert view.window == RandomWindow(scale=(0.3, 0.5))
    assert steps.operation.shape == (5000, 6)
    angles = steps.strength[:, 3:][steps.operation[:, 3:] == OPERATIONS.index("rotate")]
    assert angles.unique().tolist() == [-15.0, 15.0]


def test_rand_fills_grey_images_with_the_mean_grey_of_imagenet() -> None:
    images = scenes(2, 1)
    steps = Steps(torch.full((2, 1), OPERATIONS.index("translate_x")), torch.full((2, 1), 0.5))
    choices = Rand().draw(2, seeded())._replace(is_flipped=torch.zeros(2, dtype=torch.bool), steps=steps)
    found = Rand().apply(images, choices)
    assert (found[:, :, :, :16] == 115).all()
    assert torch.equal(found, apply_steps(images, steps, bilinear(115)))


def test_settings_of_strong_reach_its_operations_and_its_crop() -> None:
    assert Strong().draw(9, seeded()).steps.operation.shape == (9, 2)
    choices = Strong(num_steps=3, padding=2, pad_mode="zero").draw(2000, seeded())
    assert choices.steps.operation.shape == (2000, 3)
    assert choices.weak.top.unique().tolist() == list(range(-2, 3))
    nothing = Strong(num_steps=0, padding=2, pad_mode="zero", cutout=0)
    images, shift = scenes(2), torch.full((2,), 2)
    choices = nothing.draw(2, seeded())._replace(weak=WeakChoices(shift, shift, torch.zeros(2, dtype=torch.bool)))
    assert torch.equal(nothing.apply(images, choices), geometric.shifted_crop(images, shift, shift))


@pytest.mark.parametrize("view", [Auto(cutout=4), Strong(num_steps=0, cutout=4)], ids=str)
def test_holes_of_oblong_images_lie_where_they_were_drawn(view: View) -> None:
    images = torch.full((2, 3, 16, 40), 200, dtype=torch.uint8)
    choices = view.draw(2, seeded())
    steps = Steps(torch.full((2, 1), NOTHING), torch.zeros(2, 1))
    none = torch.zeros(2, dtype=torch.int64)
    choices = choices._replace(  # type: ignore[attr-defined]
        weak=WeakChoices(none, none, none.bool()), steps=steps, hole=torch.tensor([[0.5, 0.75], [0.25, 0.5]])
    )
    changed = (view.apply(images, choices) != 200).all(dim=1)
    for image, (row, column) in zip(changed, ((8, 30), (4, 20)), strict=True):
        rows, columns = image.any(dim=1).nonzero().flatten(), image.any(dim=0).nonzero().flatten()
        assert (rows.min().item(), columns.min().item()) == (row - 2, column - 2)


def test_shifts_down_and_across_are_drawn_apart() -> None:
    weak = Auto().draw(20_000, seeded()).weak
    assert (weak.top == weak.left).double().mean().item() == pytest.approx(1 / 9, abs=0.02)


def test_whether_and_how_much_sim_blurs_are_drawn_apart() -> None:
    steps = Sim(blur=0.5).draw(20_000, seeded()).steps
    sigma = steps.strength[steps.operation == OPERATIONS.index("blur")]
    assert sigma.mean().item() == pytest.approx(1.05, abs=0.03)
    assert Sim(scale=(0.3, 0.5)).window == RandomWindow(scale=(0.3, 0.5))
