"""Wide residual network (Zagoruyko and Komodakis, BMVC 2016) as semi-supervised learning uses it: WRN-28-2."""

from torch import Tensor, nn
from torch.nn.functional import leaky_relu

from proco.models.base import BACKBONES, Backbone

_STAGE_WIDTHS = (16, 32, 64)
_SLOPE = 0.1  # of the leaky ReLU


class WideResNet(Backbone):
    """Three stages of pre-activation blocks on (N, channels, H, W); features are (N, num_features).

    depth is 6 n + 4 with n blocks a stage; width multiplies the channels 16, 32, 64 of the stages. Convolutions start
    from Kaiming's normal distribution (fan-out). No dropout.

    >>> import torch
    >>> WideResNet()(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 128])
    """

    def __init__(self, depth: int = 28, *, width: int = 2, in_channels: int = 3) -> None:
        super().__init__()
        if depth < 10 or (depth - 4) % 6:
            raise ValueError(f"the depth of a wide ResNet is 6 n + 4 with n >= 1 blocks a stage; got {depth}.")
        blocks_per_stage = (depth - 4) // 6
        widths = [width * channels for channels in _STAGE_WIDTHS]
        self.num_features = widths[-1]
        self.stem = nn.Conv2d(in_channels, 16, 3, padding=1, bias=False)
        self.stages = nn.Sequential()
        channels = 16
        for stage, out_channels in enumerate(widths):
            blocks = nn.Sequential()
            for block in range(blocks_per_stage):
                first = block == 0
                stride = 2 if stage > 0 and first else 1
                blocks.append(_Block(channels, out_channels, stride, activate_shortcut=stage == 0 and first))
                channels = out_channels
            self.stages.append(blocks)
        self.norm = nn.BatchNorm2d(channels)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, images: Tensor) -> Tensor:
        """Return features (N, num_features), the mean over positions of the last stage."""
        hidden = leaky_relu(self.norm(self.stages(self.stem(images))), _SLOPE)
        return hidden.mean(dim=(2, 3))


class _Block(nn.Module):
    """Norm, activation and convolution twice, around a shortcut that is a 1x1 convolution where the shape changes.

    activate_shortcut: let the shortcut begin after the first activation, as the very first block of the network does.
    """

    def __init__(self, in_channels: int, out_channels: int, stride: int, *, activate_shortcut: bool) -> None:
        super().__init__()
        self.norm1 = nn.BatchNorm2d(in_channels)
        self.conv1 = nn.Conv2d(in_channels, out_channels, 3, stride=stride, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(out_channels)
        self.conv2 = nn.Conv2d(out_channels, out_channels, 3, padding=1, bias=False)
        same_shape = in_channels == out_channels and stride == 1
        self.shortcut = (
            nn.Identity() if same_shape else nn.Conv2d(in_channels, out_channels, 1, stride=stride, bias=False)
        )
        self.activate_shortcut = activate_shortcut

    def forward(self, hidden: Tensor) -> Tensor:
        activated = leaky_relu(self.norm1(hidden), _SLOPE)
        residual: Tensor = self.conv2(leaky_relu(self.norm2(self.conv1(activated)), _SLOPE))
        shortcut: Tensor = self.shortcut(activated if self.activate_shortcut else hidden)
        return residual + shortcut


@BACKBONES.register("wrn28_2")
def wrn28_2(*, in_channels: int = 3) -> WideResNet:
    """Return the WRN-28-2 of the semi-supervised experiments."""
    return WideResNet(28, width=2, in_channels=in_channels)
