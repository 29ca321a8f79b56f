"""Learnable weight scaling: which parts learn when, and what it is of."""

import pytest
import torch
from tests.methods.small import LABELS, TASK, make_network, outputs_of, values_of
from torch.nn.functional import cross_entropy

from proco.errors import ConfigError
from proco.methods.ldam import Ldam
from proco.methods.lws import Lws
from proco.models.heads import ScaledClassifier
from proco.training.learner import Learner


def test_scales_learn_alone_and_not_at_first() -> None:
    network = make_network(Lws())
    first, second = Lws().stages(TASK, 1)
    Learner(network, first, None)
    at_first = {name for name, parameter in network.named_parameters() if parameter.requires_grad}
    assert at_first == {name for name, _ in network.named_parameters()} - {"classifier.scale"}
    learner = Learner(network, second, None).train()
    assert [name for name, parameter in network.named_parameters() if parameter.requires_grad] == ["classifier.scale"]
    assert not any(module.training for module in learner.network.backbone.modules())
    assert second.renewed == ()


def test_the_second_stage_is_cross_entropy_of_scaled_logits() -> None:
    network = make_network(Lws())
    assert isinstance(network.classifier, ScaledClassifier)
    with torch.no_grad():
        network.classifier.scale.copy_(torch.tensor([0.5, 1.0, 2.0, 3.0, 4.0]))
    outputs = outputs_of(network, 1)
    plain = outputs[0].features @ network.classifier.weight.T + network.classifier.bias
    (value,) = values_of(Lws().stages(TASK, 1)[1], outputs, network).values()
    torch.testing.assert_close(value, cross_entropy(plain * network.classifier.scale, LABELS))


def test_a_first_method_with_a_classifier_of_its_own_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"method\.first: ldam has a classifier of its own \(CosineClassifier\); lws"):
        make_network(Lws(first=Ldam()))
