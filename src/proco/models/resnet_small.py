"""ResNet for small images (He et al., CVPR 2016, section 4.2): the field's ResNet-32 on CIFAR."""

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from proco.errors import ConfigError
from proco.kernels.layers import conv_norm_relu, conv_norm_relu_and_images
from proco.models.base import BACKBONES, Backbone

STAGE_WIDTHS = (16, 32, 64)


class SmallResNet(Backbone):
    """Three stages of equal residual blocks on (N, channels, H, W); features are (N, num_features).

    blocks_per_stage 5 is ResNet-32 (6 n + 2 layers). The shortcut between stages has no parameters: it takes every
    second pixel and pads channels with zeros ("option A"). Convolutions start from Kaiming's normal distribution
    (fan-in), as in ProCo's official code; batch norms at 1 and 0. width multiplies the channels: 1 is the standard
    network, 4 begins at 64. Of several experts each has the stages after the first shared_stages for itself; the
    features are theirs side by side.

    >>> import torch
    >>> SmallResNet()(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 64])
    """

    def __init__(
        self,
        blocks_per_stage: int = 5,
        *,
        width: int = 1,
        in_channels: int = 3,
        experts: int = 1,
        shared_stages: int = 2,
    ) -> None:
        super().__init__()
        if width < 1:
            raise ConfigError(f"a network's width is a multiple of the standard one, 1 or more; got {width}.")
        if experts < 1 or not 0 <= shared_stages < len(STAGE_WIDTHS):
            raise ConfigError(
                f"a network has one expert or more, which share 0 to 2 stages; got {experts} and {shared_stages}."
            )
        widths = [width * channels for channels in STAGE_WIDTHS]
        self.num_features = widths[-1] * experts
        self.num_experts = experts
        self.stem = nn.Conv2d(in_channels, widths[0], 3, padding=1, bias=False)
        self.stem_norm = nn.BatchNorm2d(widths[0])
        shared = len(widths) if experts == 1 else shared_stages
        self.stages = _stages(widths, range(shared), blocks_per_stage)
        rest = range(shared, len(widths))
        self.experts = nn.ModuleList(_stages(widths, rest, blocks_per_stage) for _ in range(experts) if rest)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight)

    def forward(self, images: Tensor) -> Tensor:
        """Return features (N, num_features), the mean over positions of the last stage."""
        hidden: Tensor = self.stages(conv_norm_relu(self.stem, self.stem_norm, images))
        parts = [expert(hidden) for expert in self.experts] or [hidden]
        kind = torch.promote_types(hidden.dtype, torch.float32)  # under autocast means are not rounded
        return torch.cat([part.mean(dim=(2, 3), dtype=kind) for part in parts], dim=1)


def _stages(widths: list[int], numbers: range, blocks_per_stage: int) -> nn.Sequential:
    """Return the stages of the given numbers; all but the first halve the image."""
    stages = nn.Sequential()
    for number in numbers:
        channels = widths[max(number - 1, 0)]
        strides = [2 if number > 0 else 1] + [1] * (blocks_per_stage - 1)
        blocks = [_Block(widths[number] if i else channels, widths[number], s) for i, s in enumerate(strides)]
        stages.append(nn.Sequential(*blocks))
    return stages


class _Block(nn.Module):
    """Two 3x3 convolutions around a shortcut."""

    def __init__(self, in_channels: int, out_channels: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(in_channels, out_channels, 3, stride=stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(out_channels)
        self.conv2 = nn.Conv2d(out_channels, out_channels, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(out_channels)
        self.stride = stride
        self.added_channels = out_channels - in_channels

    def forward(self, hidden: Tensor) -> Tensor:
        inner, hidden = conv_norm_relu_and_images(self.conv1, self.norm1, hidden)
        return conv_norm_relu(self.conv2, self.norm2, inner, self._shortcut(hidden))

    def _shortcut(self, hidden: Tensor) -> Tensor:
        if self.stride == 1:
            return hidden
        before = self.added_channels // 2
        # Channels are put last for the slice: its gradient then lies in memory as the convolutions like it.
        every_second = hidden.permute(0, 2, 3, 1)[:, ::2, ::2]
        return pad(every_second, (before, self.added_channels - before)).permute(0, 3, 1, 2)


@BACKBONES.register("resnet8")
def resnet8(*, width: int = 1, in_channels: int = 3, experts: int = 1, shared_stages: int = 2) -> SmallResNet:
    """Return the smallest network of the family, for trials and tests."""
    return SmallResNet(1, width=width, in_channels=in_channels, experts=experts, shared_stages=shared_stages)


@BACKBONES.register("resnet14")
def resnet14(*, width: int = 1, in_channels: int = 3, experts: int = 1, shared_stages: int = 2) -> SmallResNet:
    """Return the ResNet-14, of two blocks a stage."""
    return SmallResNet(2, width=width, in_channels=in_channels, experts=experts, shared_stages=shared_stages)


@BACKBONES.register("resnet20")
def resnet20(*, width: int = 1, in_channels: int = 3, experts: int = 1, shared_stages: int = 2) -> SmallResNet:
    """Return the ResNet-20, of three blocks a stage."""
    return SmallResNet(3, width=width, in_channels=in_channels, experts=experts, shared_stages=shared_stages)


@BACKBONES.register("resnet32")
def resnet32(*, width: int = 1, in_channels: int = 3, experts: int = 1, shared_stages: int = 2) -> SmallResNet:
    """Return the ResNet-32 of the paper's CIFAR experiments."""
    return SmallResNet(5, width=width, in_channels=in_channels, experts=experts, shared_stages=shared_stages)


@BACKBONES.register("resnet56")
def resnet56(*, width: int = 1, in_channels: int = 3, experts: int = 1, shared_stages: int = 2) -> SmallResNet:
    """Return the ResNet-56, of nine blocks a stage."""
    return SmallResNet(9, width=width, in_channels=in_channels, experts=experts, shared_stages=shared_stages)
