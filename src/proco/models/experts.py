"""A network of experts reduced to the first of them: what it is after the others have helped to train it."""

import copy

from torch import nn

from proco.errors import ConfigError
from proco.models.heads import ExpertClassifiers
from proco.models.network import Network
from proco.models.resnet_small import SmallResNet


def first_expert(network: Network) -> Network:
    """Return a copy without the other experts and without a projector: layer for layer a network of one classifier.

    Its logits are the first of the network's expert_logits.
    """
    if not isinstance(network.classifier, ExpertClassifiers):
        raise ConfigError("the network has no experts to choose from.")
    alone = copy.deepcopy(network)
    backbone, classifier = alone.backbone, alone.classifier
    assert isinstance(backbone, SmallResNet)  # the only ones that have experts
    assert isinstance(classifier, ExpertClassifiers)
    backbone.stages = nn.Sequential(*backbone.stages, *backbone.experts[0])  # type: ignore[misc]
    backbone.num_features //= backbone.num_experts
    backbone.num_experts = 1
    backbone.experts = nn.ModuleList()
    alone.classifier = classifier.classifiers[0]  # type: ignore[assignment]
    alone.projector = None
    return alone
