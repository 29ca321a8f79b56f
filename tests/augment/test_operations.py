"""Steps: every image undergoes its own operations, in their order."""

import pytest
import torch
from tests.augment.pictures import noise, scenes
from torch import Tensor

from proco.augment import geometric, operations, photometric
from proco.augment.choices import select, to_device
from proco.augment.operations import NOTHING, OPERATIONS, Moves, Steps, apply_steps, join
from proco.augment.sim import Sim

STRENGTH = {
    "rotate": 17.0,
    "shear_x": 0.2,
    "shear_y": -0.2,
    "blur": 0.8,
    "hue": 0.1,
    "posterize": 3.0,
    "solarize": 90.0,
    "solarize_add": 50.0,
}


def one_step(name: str, count: int, strength: float) -> Steps:
    return Steps(torch.full((count, 1), OPERATIONS.index(name)), torch.full((count, 1), strength))


def random_steps(count: int, num_steps: int) -> Steps:
    generator = torch.Generator().manual_seed(0)
    operation = torch.randint(NOTHING, len(OPERATIONS), (count, num_steps), generator=generator)
    strength = torch.tensor([STRENGTH.get(name, 0.3) for name in OPERATIONS])
    return Steps(operation, strength[operation])


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_operation_is_the_function_of_its_name(name: str) -> None:
    images = scenes(10, 3, 32, 48)
    strength = STRENGTH.get(name, 0.3)
    found = apply_steps(images, one_step(name, 10, strength), Moves(fill=99))
    values = torch.full((10,), strength)
    if name in ("translate_x", "translate_y"):
        pixels = values * (48 if name == "translate_x" else 32)  # 14.4 and 9.6: whole pixels are moved
        expected = getattr(geometric, name)(images, pixels.long(), fill=99)
    elif hasattr(geometric, name):
        expected = getattr(geometric, name)(images, values, fill=99)
    elif name in ("auto_contrast", "equalize", "grayscale", "invert"):
        expected = getattr(photometric, name)(images)
    else:
        expected = getattr(photometric, name)(images, values)
    assert torch.equal(found, expected)
    assert not torch.equal(found, images)


@pytest.mark.parametrize("name", ["translate_x", "translate_y"])
def test_translations_by_whole_pixels_cut_off_the_rest_towards_zero(name: str) -> None:
    images = noise(4)
    pixels = torch.tensor([2.7, -2.7, 0.9, -0.9])
    steps = Steps(torch.full((4, 1), OPERATIONS.index(name)), pixels[:, None] / 32)
    move = getattr(geometric, name)
    assert torch.equal(apply_steps(images, steps), move(images, torch.tensor([2.0, -2.0, 0.0, 0.0])))
    to_the_nearest = apply_steps(images, steps, Moves(by_whole_pixels=False))
    assert torch.equal(to_the_nearest, move(images, torch.tensor([3.0, -3.0, 1.0, -1.0])))


@pytest.mark.parametrize("channels", [1, 3])
def test_images_undergo_their_own_steps_one_after_the_other(channels: int) -> None:
    images = scenes(60, channels)
    steps = random_steps(60, 3)
    found = apply_steps(images, steps)
    for i in range(60):
        image = images[i : i + 1]
        for operation, strength in zip(steps.operation[i].tolist(), steps.strength[i].tolist(), strict=True):
            if operation != NOTHING:
                image = apply_steps(image, one_step(OPERATIONS[operation], 1, strength))
        assert torch.equal(found[i : i + 1], image), [OPERATIONS[o] for o in steps.operation[i].tolist()]


def test_order_matters_and_nothing_is_nothing() -> None:
    images = noise()
    one, two = one_step("solarize", 40, 90.0), one_step("posterize", 40, 2.0)
    together = apply_steps(images, join(one, two))
    assert torch.equal(together, apply_steps(apply_steps(images, one), two))
    assert not torch.equal(together, apply_steps(images, join(two, one)))
    nothing = Steps(torch.full((40, 2), NOTHING), torch.ones(40, 2))
    assert torch.equal(apply_steps(images, nothing), images)
    assert torch.equal(apply_steps(images, join(nothing, one, nothing)), apply_steps(images, one))


def test_batches_can_be_cut_and_shuffled() -> None:
    images = scenes(50)
    steps = random_steps(50, 2)
    whole = apply_steps(images, steps)
    parts = [apply_steps(images[i : i + 17], select(steps, slice(i, i + 17))) for i in (0, 17, 34)]
    assert torch.equal(torch.cat(parts), whole)
    order = torch.randperm(50, generator=torch.Generator().manual_seed(1))
    assert torch.equal(apply_steps(images[order], select(steps, order)), whole[order])
    assert apply_steps(images[:0], select(steps, slice(0, 0))).shape == (0, 3, 32, 32)


def test_device_gives_the_same(device: torch.device) -> None:
    images = scenes(200)
    steps = random_steps(200, 2)
    found: Tensor = apply_steps(images.to(device), select(Steps(*(part.to(device) for part in steps)), slice(None)))
    difference = (found.cpu().int() - apply_steps(images, steps).int()).abs()
    assert (difference > 1).double().mean() < 1e-3


DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


@pytest.fixture
def kernel_calls(monkeypatch: pytest.MonkeyPatch) -> list[Tensor]:
    """The images given to the kernel of colours; on a CPU it is interpreted, as if it were a GPU."""
    pytest.importorskip("triton")
    from proco.kernels import colour

    given = []
    original = colour.colour_steps

    def spy(images: Tensor, operation: Tensor, strength: Tensor) -> Tensor:
        given.append(images)
        return original(images, operation, strength)

    monkeypatch.setattr(colour, "colour_steps", spy)
    if not torch.cuda.is_available():
        monkeypatch.setattr(operations, "kernels_run_on", lambda device: True)
    return given


def jitters(count: int, blur: float = 0.0) -> Steps:
    return Sim(blur=blur).draw(count, torch.Generator().manual_seed(0)).steps


def by_torch(images: Tensor, steps: Steps, monkeypatch: pytest.MonkeyPatch) -> Tensor:
    with monkeypatch.context() as patch:
        patch.setattr(operations, "kernels_run_on", lambda device: False)
        return apply_steps(images, steps)


def test_colours_alone_are_one_kernel(kernel_calls: list[Tensor], monkeypatch: pytest.MonkeyPatch) -> None:
    images, steps = scenes(40).to(DEVICE), to_device(jitters(40), DEVICE)
    found = apply_steps(images, steps)
    assert len(kernel_calls) == 1
    assert kernel_calls[0] is images
    assert torch.equal(found, by_torch(images, steps, monkeypatch))
    assert not torch.equal(found, images)
    assert len(kernel_calls) == 1


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_colours_do_not_wait_for_a_gpu(kernel_calls: list[Tensor]) -> None:
    images, steps = scenes(40).to(DEVICE), to_device(jitters(40), DEVICE)
    apply_steps(images, steps)  # compiles
    torch.cuda.set_sync_debug_mode("error")
    try:
        apply_steps(images, steps)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert len(kernel_calls) == 2


def test_kernel_knows_its_operations_by_our_names() -> None:
    pytest.importorskip("triton")
    from proco.kernels.colour import CODES

    assert set(CODES) <= set(OPERATIONS)
    assert NOTHING not in CODES.values()


@pytest.mark.parametrize(
    ("shape", "blur"),
    [((20, 3, 32, 32), 0.2), ((20, 1, 32, 32), 0.0), ((20, 3, 64, 65), 0.0), ((0, 3, 32, 32), 0.0)],
    ids=["another operation", "grey", "too large", "none"],
)
def test_what_the_kernel_does_not_know_is_done_by_torch(
    shape: tuple[int, int, int, int], blur: float, kernel_calls: list[Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    images, steps = scenes(*shape).to(DEVICE), to_device(jitters(shape[0], blur), DEVICE)
    found = apply_steps(images, steps)
    assert not kernel_calls
    assert torch.equal(found, by_torch(images, steps, monkeypatch))


def test_kernel_is_not_taken_where_it_would_wait_or_not_run(
    kernel_calls: list[Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    images, steps = scenes(20).to(DEVICE), to_device(jitters(20), DEVICE)
    elsewhere = steps._replace(operation=steps.operation.to("meta"))  # a device that cannot be asked
    assert operations._by_kernel(images, elsewhere) is None
    by_torch(images, steps, monkeypatch)
    assert not kernel_calls
