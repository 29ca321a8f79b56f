"""Logit adjustment as a method: the cases in which it is cross-entropy, and its strength."""

import math

import pytest
import torch
from tests.methods.small import COUNTS, LABELS, TASK, make_network, outputs_of, values_of

from proco.errors import ConfigError
from proco.methods.cross_entropy import CrossEntropy
from proco.methods.logit_adjustment import LogitAdjustment


@pytest.mark.parametrize(
    ("method", "task"),
    [(LogitAdjustment(), TASK._replace(class_counts=torch.full_like(COUNTS, 7))), (LogitAdjustment(tau=0.0), TASK)],
    ids=["equal counts", "no strength"],
)
def test_it_is_cross_entropy(method: LogitAdjustment, task: type(TASK)) -> None:  # type: ignore[valid-type]
    network = make_network()
    outputs = outputs_of(network, 1)
    (adjusted,) = values_of(method.stages(task, 1)[0], outputs, network).values()
    (plain,) = values_of(CrossEntropy().stages(task, 1)[0], outputs, network).values()
    torch.testing.assert_close(adjusted, plain)


def test_priors_are_added_as_often_as_tau_says_and_not_when_predicting() -> None:
    network = make_network()
    outputs = outputs_of(network, 1)
    method = LogitAdjustment(tau=1.3)
    (stage,) = method.stages(TASK, 1)
    scores = outputs[0].logits + 1.3 * (COUNTS / COUNTS.sum()).log()
    expected = -torch.stack([row.log_softmax(0)[y] for row, y in zip(scores, LABELS, strict=True)]).mean()
    torch.testing.assert_close(values_of(stage, outputs, network)["logit_adjustment"], expected)
    assert stage.terms["logit_adjustment"].weight == 1.0
    assert torch.equal(method.predict(outputs[0], COUNTS), outputs[0].logits)


@pytest.mark.parametrize("tau", [math.inf, -1.0, math.nan])
def test_a_strength_that_is_none_is_refused(tau: float) -> None:
    with pytest.raises(ConfigError, match=r"method\.tau"):
        LogitAdjustment(tau=tau)
