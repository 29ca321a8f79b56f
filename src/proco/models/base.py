"""What a backbone is, and the registry in which this library's own are filed."""

from collections.abc import Callable

from torch import nn

from proco.registry import Registry


class Backbone(nn.Module):
    """A network from images (N, C, H, W) to features (N, num_features)."""

    num_features: int


BACKBONES = Registry[Callable[..., Backbone]]("backbone")
