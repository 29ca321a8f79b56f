"""The small ResNet against the published sizes and a block written out by hand."""

import pytest
import torch
from torch import nn
from torch.nn.functional import batch_norm, conv2d, relu

from proco.errors import ConfigError
from proco.models.base import BACKBONES
from proco.models.resnet_small import SmallResNet, _Block, resnet32


def num_parameters(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def test_sizes_are_the_published_ones() -> None:
    # With a linear classifier of 10 classes: 0.27 M for ResNet-20, 0.46 M for ResNet-32, 0.85 M for ResNet-56.
    classifier = 64 * 10 + 10
    assert num_parameters(SmallResNet(3)) + classifier == 269_722
    assert num_parameters(resnet32()) + classifier == 464_154
    assert num_parameters(SmallResNet(9)) + classifier == 853_018


@pytest.mark.parametrize("size", [28, 32, 64])
def test_any_image_size_gives_features_of_one_width(size: int) -> None:
    assert resnet32(in_channels=1)(torch.zeros(2, 1, size, size)).shape == (2, 64)
    assert SmallResNet(1, width=4)(torch.zeros(2, 3, size, size)).shape == (2, 256)


def test_resolution_halves_twice() -> None:
    network = SmallResNet(1)
    hidden = network.stem(torch.zeros(1, 3, 32, 32))
    shapes = []
    for stage in network.stages:
        hidden = stage(hidden)
        shapes.append(tuple(hidden.shape[1:]))
    assert shapes == [(16, 32, 32), (32, 16, 16), (64, 8, 8)]


def test_block_between_stages_is_the_formula() -> None:
    torch.manual_seed(0)
    block = _Block(4, 8, stride=2).eval()
    hidden = torch.randn(2, 4, 6, 6)

    def norm(x: torch.Tensor) -> torch.Tensor:
        return batch_norm(x, torch.zeros(8), torch.ones(8), torch.ones(8), torch.zeros(8))

    residual = norm(conv2d(hidden, block.conv1.weight, stride=2, padding=1))
    residual = norm(conv2d(relu(residual), block.conv2.weight, padding=1))
    shortcut = torch.zeros(2, 8, 3, 3)
    shortcut[:, 2:6] = hidden[:, :, ::2, ::2]  # two channels of zeros on either side
    torch.testing.assert_close(block(hidden), relu(residual + shortcut))


def test_experts_share_the_first_stages_and_are_their_features_side_by_side() -> None:
    torch.manual_seed(0)
    network = SmallResNet(1, experts=3, shared_stages=2).eval()
    assert (network.num_features, network.num_experts) == (192, 3)
    images = torch.randn(2, 3, 8, 8)
    features = network(images)
    for number, part in enumerate(features.chunk(3, dim=1)):
        alone = SmallResNet(1).eval()
        state = {name: value for name, value in network.state_dict().items() if not name.startswith("experts")}
        own = f"experts.{number}.0."
        last = {f"stages.2.{name.removeprefix(own)}": v for name, v in network.state_dict().items() if own in name}
        alone.load_state_dict(state | last)
        torch.testing.assert_close(part, alone(images))


def test_experts_without_anything_of_their_own_are_refused() -> None:
    with pytest.raises(ConfigError, match="share 0 to 2 stages; got 3 and 3"):
        SmallResNet(1, experts=3, shared_stages=3)


@pytest.mark.parametrize(
    ("name", "blocks"), [("resnet8", 1), ("resnet14", 2), ("resnet20", 3), ("resnet32", 5), ("resnet56", 9)]
)
def test_networks_by_name_have_their_depth_and_take_every_option(name: str, blocks: int) -> None:
    network = BACKBONES[name](width=2, in_channels=1, experts=2, shared_stages=1)
    expected = SmallResNet(blocks, width=2, in_channels=1, experts=2, shared_stages=1)
    shapes = {key: value.shape for key, value in network.state_dict().items()}
    assert shapes == {key: value.shape for key, value in expected.state_dict().items()}
    assert sum(value.dim() == 4 for value in BACKBONES[name]().state_dict().values()) == 6 * blocks + 1


def test_convolutions_start_with_kaiming_normal_fan_in() -> None:
    """Elsewhere a convolution has as many channels out as in, and fan-in is fan-out."""
    torch.manual_seed(0)
    weight = SmallResNet(1, width=4).stages[2][0].conv1.weight  # 128 to 256 channels
    assert weight.std().item() == pytest.approx((2 / (128 * 9)) ** 0.5, rel=0.03)


def test_features_are_float32_means_under_autocast() -> None:
    torch.manual_seed(0)
    network = SmallResNet(1).eval()
    hidden = []
    network.stages[2].register_forward_hook(lambda _, __, output: hidden.append(output))
    with torch.autocast("cpu", torch.float16):
        features = network(torch.randn(2, 3, 8, 8))
    assert hidden[0].dtype == torch.float16
    assert features.dtype == torch.float32
    torch.testing.assert_close(features, hidden[0].float().mean(dim=(2, 3)), rtol=1e-6, atol=0)
