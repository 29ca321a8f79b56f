"""A network of experts reduced to the first of them: what it is after the others have helped to train it."""

import copy

from torch import nn

from proco.errors import ConfigError
from proco.models.heads import ExpertHeads
from proco.models.network import Network
from proco.models.resnet_small import SmallResNet


def first_expert(network: Network) -> Network:
    """Return a copy without the other experts: layer for layer a network of one classifier and one projector.

    Its outputs are the first of the network's experts.
    """
    if not isinstance(network.classifier, ExpertHeads):
        raise ConfigError("the network has no experts to choose from.")
    alone = copy.deepcopy(network)
    backbone = alone.backbone
    assert isinstance(backbone, SmallResNet)  # the only ones that have experts
    backbone.stages = nn.Sequential(*backbone.stages, *backbone.experts[0])  # type: ignore[misc]
    backbone.num_features //= backbone.num_experts
    backbone.num_experts = 1
    backbone.experts = nn.ModuleList()
    for name in ("classifier", "projector"):
        if isinstance(heads := getattr(alone, name), ExpertHeads):
            setattr(alone, name, heads[0])
    return alone
