"""The wide ResNet against its known size, and the block written out by hand."""

import pytest
import torch
from torch import nn
from torch.nn.functional import batch_norm, conv2d, leaky_relu

from proco.models.wide_resnet import WideResNet, _Block, wrn28_2


def test_size_is_the_known_one() -> None:
    network = wrn28_2()
    sizes = dict.fromkeys((nn.Conv2d, nn.BatchNorm2d), 0)
    for module in network.modules():
        if type(module) in sizes:
            sizes[type(module)] += sum(parameter.numel() for parameter in module.parameters())
    assert sizes == {nn.Conv2d: 1_462_704, nn.BatchNorm2d: 3_616}
    assert network.num_features == 128


@pytest.mark.parametrize("activate_shortcut", [True, False])
def test_block_is_the_formula(activate_shortcut: bool) -> None:
    torch.manual_seed(0)
    block = _Block(4, 6, stride=2, activate_shortcut=activate_shortcut).eval()
    hidden = torch.randn(2, 4, 6, 6)

    def activate(x: torch.Tensor) -> torch.Tensor:
        channels = x.shape[1]
        return leaky_relu(batch_norm(x, torch.zeros(channels), torch.ones(channels)), 0.1)

    first = conv2d(activate(hidden), block.conv1.weight, stride=2, padding=1)
    residual = conv2d(activate(first), block.conv2.weight, padding=1)
    assert isinstance(block.shortcut, nn.Conv2d)
    through = activate(hidden) if activate_shortcut else hidden
    torch.testing.assert_close(block(hidden), residual + conv2d(through, block.shortcut.weight, stride=2))


def test_only_the_first_block_activates_before_the_shortcut() -> None:
    flags = [module.activate_shortcut for module in WideResNet(10).modules() if isinstance(module, _Block)]
    assert flags == [True, False, False]


def test_impossible_depths_are_explained() -> None:
    with pytest.raises(ValueError, match=r"6 n \+ 4 .*; got 27"):
        WideResNet(27)


def test_convolutions_start_with_kaiming_normal_fan_out() -> None:
    torch.manual_seed(0)
    weight = WideResNet(10, width=4).stages[2][0].conv1.weight  # 128 to 256 channels
    assert weight.std().item() == pytest.approx((2 / (256 * 9)) ** 0.5, rel=0.03)
