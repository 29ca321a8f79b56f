"""The kernels against torch in float64; without a GPU, Triton interprets them."""

import copy

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d, relu

pytest.importorskip("triton")

from proco.kernels import convolution, functions
from proco.kernels import partials as partials_module
from proco.kernels.functions import convolve, norm_relu
from proco.kernels.partials import total

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
HALF = torch.float16
# The interpreter multiplies no bfloat16.
KINDS = [torch.float16, torch.bfloat16] if torch.cuda.is_available() else [torch.float16]
ROUNDING = {torch.float16: 5e-4, torch.bfloat16: 4e-3}  # relative, of a result


def images(*shape: int, seed: int = 0, kind: torch.dtype = HALF) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(*shape, generator=generator).to(DEVICE, kind)
    return values.contiguous(memory_format=torch.channels_last).requires_grad_()


def distance(ours: Tensor, exact: Tensor) -> float:
    """Relative, in the norm of the whole."""
    return float((ours.detach().double() - exact.detach()).norm() / exact.detach().norm())


def exact(values: Tensor) -> Tensor:
    return values.detach().double().requires_grad_()


@pytest.fixture(params=[1, 2, 1000], ids=lambda programs: f"{programs} programs")
def few_programs(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a program take all rows, a share of them, or one each; and sums be added in turns."""
    for name in ("_FORWARD", "_IMAGE_GRADIENT", "_WEIGHT_GRADIENT"):
        plans = getattr(convolution, name)
        changed = {channels: plan._replace(programs=request.param) for channels, plan in plans.items()}
        monkeypatch.setattr(convolution, name, changed)
    monkeypatch.setattr(partials_module, "_ROWS", 2)


@pytest.mark.parametrize(
    ("in_channels", "out_channels", "height", "width", "count"),
    [
        (4, 16, 8, 8, 3),
        (16, 16, 8, 8, 3),
        (16, 32, 4, 8, 2),
        (32, 16, 8, 4, 1),
        (32, 32, 4, 4, 5),
        (16, 16, 5, 6, 1),
        (16, 16, 1, 6, 3),
        (16, 16, 5, 2, 70),  # more pairs than a block holds
    ],
)
@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.usefixtures("few_programs")
def test_convolution_is_that_of_torch(
    kind: torch.dtype, in_channels: int, out_channels: int, height: int, width: int, count: int
) -> None:
    x = images(count, in_channels, height, width, kind=kind)
    weight = torch.randn(out_channels, in_channels, 3, 3, generator=torch.Generator().manual_seed(1)).to(DEVICE)
    weight = (0.1 * weight).contiguous(memory_format=torch.channels_last).requires_grad_()
    out, sums, _ = convolve(x, weight)
    upstream = images(*out.shape, seed=2, kind=kind).detach()
    gradients = torch.autograd.grad(out, (x, weight), upstream)

    exact_x, exact_weight = exact(x), exact(weight.to(kind))
    exact_out = conv2d(exact_x, exact_weight, padding=1)
    exact_gradients = torch.autograd.grad(exact_out, (exact_x, exact_weight), upstream.double())
    assert distance(out, exact_out) < ROUNDING[kind]
    assert distance(gradients[0], exact_gradients[0]) < ROUNDING[kind]
    assert gradients[1].dtype == torch.float32
    assert distance(gradients[1], exact_gradients[1]) < 1e-6
    # The sums are of the rounded values, which batch norm sees.
    values = out.detach().double()
    assert distance(sums.sum(0)[0], values.sum(dim=(0, 2, 3))) < 1e-6
    assert distance(sums.sum(0)[1], values.square().sum(dim=(0, 2, 3))) < 1e-6


def test_convolution_takes_what_lies_otherwise_in_memory() -> None:
    x, weight = images(2, 16, 4, 4), torch.randn(16, 16, 3, 3, device=DEVICE)
    out, *_ = convolve(x.detach().contiguous(), weight.contiguous())
    expected, *_ = convolve(x, weight.contiguous(memory_format=torch.channels_last))
    assert torch.equal(out, expected)


@pytest.mark.parametrize("frozen", ["image_gradient", "weight_gradient"])
def test_gradients_nobody_wants_are_not_computed(frozen: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x, weight = images(1, 16, 4, 4), torch.randn(16, 16, 3, 3, device=DEVICE, requires_grad=True)
    called = []
    for name in ("image_gradient", "weight_gradient"):
        original = getattr(functions, name)
        monkeypatch.setattr(functions, name, lambda *given, n=name, f=original: called.append(n) or f(*given))
    (x if frozen == "image_gradient" else weight).requires_grad_(False)
    out, *_ = convolve(x, weight)
    out.float().sum().backward()  # type: ignore[no-untyped-call]
    assert called == [{"image_gradient": "weight_gradient", "weight_gradient": "image_gradient"}[frozen]]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_images_taken_from_the_convolution_have_both_gradients(kind: torch.dtype) -> None:
    """Added before they are rounded."""
    x, weight = images(3, 16, 4, 6, kind=kind), torch.randn(32, 16, 3, 3, device=DEVICE, requires_grad=True)
    out, _, same = convolve(x, weight)
    upstream, beside = images(*out.shape, seed=1, kind=kind).detach(), images(*x.shape, seed=2, kind=kind).detach()
    assert torch.equal(same, x)
    of_images, of_weight = torch.autograd.grad((out, same), (x, weight), (upstream, beside))

    exact_x, exact_weight = exact(x), exact(weight.to(kind))
    exact_out = conv2d(exact_x, exact_weight, padding=1)
    expected = torch.autograd.grad(exact_out, (exact_x, exact_weight), upstream.double())
    assert distance(of_images, expected[0] + beside.double()) < ROUNDING[kind]
    assert distance(of_weight, expected[1]) < 1e-6
    # And each alone.
    _, _, same = convolve(x, weight)
    assert torch.equal(torch.autograd.grad(same, x, beside)[0], beside)


def test_memory_behind_the_images_is_not_read() -> None:
    """The images lie in the middle of NaN."""
    for shape in ((3, 16, 1, 6), (1, 16, 3, 4), (2, 16, 2, 2)):
        count, channels, height, width = shape
        size = count * channels * height * width
        memory = torch.full((size + 8192,), torch.nan, dtype=HALF, device=DEVICE)
        memory[4096 : 4096 + size] = torch.randn(size, device=DEVICE).to(HALF)
        x = memory[4096 : 4096 + size].view(count, height, width, channels).permute(0, 3, 1, 2).requires_grad_()
        weight = torch.randn(16, channels, 3, 3, device=DEVICE, requires_grad=True)
        out, sums, _ = convolve(x, weight)
        gradients = torch.autograd.grad(out, (x, weight), torch.ones_like(out))
        assert all(value.isfinite().all() for value in (out, sums, *gradients))


def test_second_derivatives_are_refused() -> None:
    x, weight = images(1, 16, 4, 4), torch.randn(16, 16, 3, 3, device=DEVICE, requires_grad=True)
    for out in (convolve(x, weight)[0], norm_relu(x, None, make_norm(16))):
        with pytest.raises(RuntimeError, match="first derivatives only"):
            torch.autograd.grad(out.float().sum(), x, create_graph=True)


@pytest.mark.parametrize("training", [True, False])
def test_nan_stays_nan(training: bool) -> None:
    """So that a diverged run is noticed."""
    x = images(2, 16, 4, 4).detach()
    x[0, 3, 1, 1] = torch.nan
    out = norm_relu(x, None, make_norm(16).train(training))
    is_nan = out.isnan()
    assert is_nan[0, 3, 1, 1]
    assert is_nan[:, 3].all() == training
    assert not is_nan[:, :3].any()


def make_norm(channels: int) -> nn.BatchNorm2d:
    torch.manual_seed(3)
    norm = nn.BatchNorm2d(channels, momentum=0.3)
    nn.init.uniform_(norm.weight, -1, 2)
    nn.init.normal_(norm.bias)
    return norm.to(DEVICE)


@pytest.mark.parametrize("with_sums", [False, True])
@pytest.mark.parametrize("with_shortcut", [False, True])
@pytest.mark.parametrize("channels", [16, 64])
def test_norm_is_that_of_torch(channels: int, with_shortcut: bool, with_sums: bool) -> None:
    norm = make_norm(channels)
    twin = copy.deepcopy(norm).double()
    x = (images(5, channels, 6, 7) * 2 + 1).detach().requires_grad_()
    shortcut = images(5, channels, 6, 7, seed=1) if with_shortcut else None
    values = x.detach().float().transpose(0, 1).flatten(1)
    sums = torch.stack([values.sum(1), values.square().sum(1)])[None] if with_sums else None
    out = norm_relu(x, shortcut, norm, sums)
    upstream = images(*out.shape, seed=2).detach()
    inputs = [value for value in (x, shortcut, norm.weight, norm.bias) if value is not None]
    gradients = torch.autograd.grad(out, inputs, upstream)

    exact_inputs = [exact(value) for value in (x, shortcut) if value is not None]
    exact_out = relu(sum(exact_inputs[1:], start=twin(exact_inputs[0])))
    exact_gradients = torch.autograd.grad(exact_out, [*exact_inputs, twin.weight, twin.bias], upstream.double())
    assert distance(out, exact_out) < ROUNDING[HALF]
    for ours, theirs in zip(gradients, exact_gradients, strict=True):
        assert distance(ours, theirs) < ROUNDING[HALF]
    for name, value in norm.named_buffers():
        torch.testing.assert_close(value.double(), twin.get_buffer(name).double(), rtol=1e-5, atol=1e-5, msg=name)


@pytest.mark.parametrize("with_shortcut", [False, True])
def test_evaluation_takes_the_running_statistics(with_shortcut: bool) -> None:
    norm = make_norm(16)
    norm.running_mean = torch.randn(16, device=DEVICE)
    norm.running_var = torch.rand(16, device=DEVICE) + 0.5
    norm.eval()
    x = images(2, 16, 3, 3).detach()
    shortcut = images(2, 16, 3, 3, seed=1).detach() if with_shortcut else None
    before = copy.deepcopy(norm.state_dict())
    out = norm_relu(x, shortcut, norm)
    exact_out = norm.double()(x.double())
    assert distance(out, relu(exact_out if shortcut is None else exact_out + shortcut.double())) < ROUNDING[HALF]
    assert all(torch.equal(value.double(), before[name].double()) for name, value in norm.state_dict().items())


@pytest.mark.parametrize("shape", [(1, 3), (7, 2, 16), (256, 5), (300, 33)])
def test_total_is_the_sum_of_the_rows(shape: tuple[int, ...]) -> None:
    values = torch.randn(*shape, device=DEVICE)
    torch.testing.assert_close(total(values), values.sum(0), rtol=1e-5, atol=1e-5)
