"""Which way a layer goes: the same result by the kernels and by torch's own layers."""

import copy

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import relu

pytest.importorskip("triton")

from proco.kernels import functions, layers
from proco.models.resnet_small import SmallResNet

HALF = torch.float16


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the kernels as they are called; on a CPU they are interpreted, as if it were a GPU."""
    names = []
    for name in ("convolve", "norm_relu"):
        original = getattr(functions, name)

        def spy(*arguments: object, name: str = name, original=original) -> object:
            names.append(name)
            return original(*arguments)

        monkeypatch.setattr(functions, name, spy)
    if not torch.cuda.is_available():
        monkeypatch.setattr(layers, "_triton_serves", lambda images, channels: True)
    return names


def device() -> torch.device:
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def plain(conv: nn.Conv2d, norm: nn.Module, images: Tensor, shortcut: Tensor | None = None) -> Tensor:
    normalised: Tensor = norm(nn.functional.conv2d(images, conv.weight.to(images.dtype), padding=1))
    return relu(normalised if shortcut is None else normalised + shortcut)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("in_channels", [3, 16])
def test_small_layers_go_through_the_kernels(in_channels: int, training: bool, called: list[str]) -> None:
    torch.manual_seed(0)
    conv = nn.Conv2d(in_channels, 16, 3, padding=1, bias=False).to(device())
    norm = nn.BatchNorm2d(16).to(device()).train(training)
    images, shortcut = torch.randn(2, in_channels, 4, 4), torch.randn(2, 16, 4, 4)
    images, shortcut = images.to(device(), HALF), shortcut.to(device(), HALF)
    with torch.no_grad():
        expected = plain(conv, copy.deepcopy(norm), images.float(), shortcut.float())
        result = layers.conv_norm_relu(conv, norm, images, shortcut)
    assert called == ["convolve", "norm_relu"]
    torch.testing.assert_close(result.float(), expected, rtol=5e-3, atol=5e-3)


@pytest.mark.parametrize(
    "conv",
    [
        nn.Conv2d(16, 16, 3, padding=1),
        nn.Conv2d(16, 32, 3, padding=1, stride=2, bias=False),
        nn.Conv2d(16, 16, 1, bias=False),
        nn.Conv2d(64, 64, 3, padding=1, bias=False),
        nn.Conv2d(16, 16, 3, padding=1, groups=2, bias=False),
        nn.Conv2d(16, 16, 3, padding=1, bias=False, padding_mode="reflect"),
    ],
    ids=str,
)
def test_other_convolutions_are_torchs(conv: nn.Conv2d, called: list[str]) -> None:
    images = torch.randn(2, conv.in_channels, 4, 4).to(device(), HALF)
    conv = conv.to(device(), HALF)
    with torch.no_grad():
        layers.conv_norm_relu(conv, nn.BatchNorm2d(conv.out_channels).to(device()), images)
    assert "convolve" not in called


@pytest.mark.parametrize(
    "norm",
    [
        nn.BatchNorm2d(16, affine=False),
        nn.BatchNorm2d(16, track_running_stats=False),
        nn.BatchNorm2d(16, momentum=None),
        nn.GroupNorm(4, 16),
        nn.Identity(),
    ],
    ids=str,
)
def test_other_norms_are_torchs(norm: nn.Module, called: list[str]) -> None:
    conv = nn.Conv2d(16, 16, 3, padding=1, bias=False).to(device())
    images = torch.randn(2, 16, 4, 4).to(device(), HALF)
    norm = norm.to(device(), HALF)
    with torch.no_grad():
        result = layers.conv_norm_relu(conv, norm, images)
        expected = relu(norm(functions.convolve(images, conv.weight)[0]))
    assert "norm_relu" not in called
    torch.testing.assert_close(result, expected)


def test_gradients_through_evaluation_are_torchs(called: list[str]) -> None:
    """The kernels have none there."""
    conv, norm = nn.Conv2d(16, 16, 3, padding=1, bias=False).to(device()), nn.BatchNorm2d(16).to(device(), HALF).eval()
    images = torch.randn(2, 16, 4, 4).to(device(), HALF).requires_grad_()
    layers.conv_norm_relu(conv, norm, images).sum().backward()  # type: ignore[no-untyped-call]
    assert called == ["convolve"]
    assert images.grad is not None


@pytest.mark.parametrize(("expected", "given"), [(16, 32), (3, 4), (4, 3)])
def test_wrong_channels_are_refused_by_torch(expected: int, given: int, called: list[str]) -> None:
    conv = nn.Conv2d(expected, 16, 3, padding=1, bias=False).to(device(), HALF)
    with pytest.raises(RuntimeError, match="channels"):
        layers.conv_norm_relu(conv, nn.BatchNorm2d(16).to(device()), torch.zeros(2, given, 4, 4).to(device(), HALF))
    assert not called


def test_float32_and_cpus_are_torchs() -> None:
    torch.manual_seed(0)
    conv, norm = nn.Conv2d(16, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16)
    images = torch.randn(2, 16, 4, 4)
    expected = plain(conv, copy.deepcopy(norm), images)
    assert torch.equal(layers.conv_norm_relu(conv, norm, images), expected)


def learnt(network: nn.Module, images: Tensor, upstream: Tensor) -> dict[str, Tensor]:
    features = network(images)
    features.backward(upstream.to(features.dtype))
    return {"features": features} | {name: value.grad for name, value in network.named_parameters()}  # type: ignore[dict-item]


def test_network_learns_the_same_through_the_kernels(called: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Forward and backward of a whole network are as near to float64 as by torch's own layers in half precision."""
    torch.manual_seed(0)
    network = SmallResNet(1).to(device())
    by_torch, exactly = copy.deepcopy(network), copy.deepcopy(network).double()
    images, upstream = torch.randn(8, 3, 8, 8).to(device(), HALF), torch.randn(8, 64).to(device())
    with torch.autocast(device().type, HALF):
        ours = learnt(network, images, upstream)
        assert called.count("convolve") == 4  # of few channels and stride 1
        assert called.count("norm_relu") == 7
        monkeypatch.setattr(layers, "_triton_serves", lambda images, channels: False)
        theirs = learnt(by_torch, images, upstream)
    exact = learnt(exactly, images.double(), upstream)

    def error(values: dict[str, Tensor], name: str) -> float:
        return float((values[name].detach().double() - exact[name].detach()).norm() / exact[name].detach().norm())

    for name in exact:
        assert error(ours, name) < 2 * error(theirs, name) + 1e-3, name
        assert error(ours, name) < 0.2, name
