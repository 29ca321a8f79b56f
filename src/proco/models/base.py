"""What a backbone is, and the registry in which this library's own are filed."""

from collections.abc import Callable

from torch import nn

from proco.registry import Registry


class Backbone(nn.Module):
    """A network from images (N, C, H, W) to features (N, num_features)."""

    num_features: int
    num_experts: int = 1
    """Parts of equal width that the features are made of, each the work of an expert of its own."""


BACKBONES = Registry[Callable[..., Backbone]]("backbone")
