"""DisAlign: which parts learn when, and the weights of its loss."""

import math

import pytest
import torch
from tests.methods.small import COUNTS, LABELS, TASK, make_network, outputs_of, values_of
from torch.nn.functional import cross_entropy

from proco.errors import ConfigError
from proco.methods.disalign import DisAlign
from proco.methods.ldam import Ldam
from proco.models.heads import AlignedClassifier
from proco.training.learner import Learner

CALIBRATION = {f"classifier.calibration.{name}" for name in ("scale", "shift", "direction", "offset")}


def test_the_calibration_learns_alone_and_not_at_first() -> None:
    network = make_network(DisAlign())
    assert isinstance(network.classifier, AlignedClassifier)
    first, second = DisAlign().stages(TASK, 1)
    Learner(network, first, None)
    at_first = {name for name, parameter in network.named_parameters() if parameter.requires_grad}
    assert at_first == {name for name, _ in network.named_parameters()} - CALIBRATION
    Learner(network, second, None)
    assert {name for name, parameter in network.named_parameters() if parameter.requires_grad} == CALIBRATION
    assert not second.renewed


@pytest.mark.parametrize("rho", [0.0, 1.2])
def test_the_second_stage_is_weighted_by_powers_of_the_inverse_frequencies(rho: float) -> None:
    network = make_network(DisAlign())
    outputs = outputs_of(network, 1)
    raw = [(74 / count) ** rho for count in COUNTS.tolist()]
    weight = torch.tensor([5 * value / sum(raw) for value in raw])
    (value,) = values_of(DisAlign(rho=rho).stages(TASK, 1)[1], outputs, network).values()
    torch.testing.assert_close(value, cross_entropy(outputs[0].logits, LABELS, weight=weight))


def test_what_cannot_be_is_refused() -> None:
    for rho in (-1.0, math.nan, math.inf):
        with pytest.raises(ConfigError, match=r"method\.rho must be finite and not negative"):
            DisAlign(rho=rho)
    with pytest.raises(ConfigError, match=r"method\.first: ldam has a classifier of its own"):
        make_network(DisAlign(first=Ldam()))
