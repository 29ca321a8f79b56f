"""Logit adjustment after training: what it trains by, and what it predicts by."""

import math

import pytest
import torch
from tests.methods.small import COUNTS, TASK, make_network, outputs_of, values_of

from proco.errors import ConfigError
from proco.methods.cross_entropy import CrossEntropy
from proco.methods.logit_adjustment_posthoc import LogitAdjustmentPosthoc


def test_priors_are_taken_off_when_predicting_and_not_before() -> None:
    network = make_network()
    outputs = outputs_of(network, 1)
    method = LogitAdjustmentPosthoc(tau=1.5)
    (value,) = values_of(method.stages(TASK, 1)[0], outputs, network).values()
    (plain,) = values_of(CrossEntropy().stages(TASK, 1)[0], outputs, network).values()
    assert torch.equal(value, plain)
    expected = outputs[0].logits - 1.5 * (COUNTS / COUNTS.sum()).log()
    torch.testing.assert_close(method.predict(outputs[0], COUNTS), expected)
    assert torch.equal(LogitAdjustmentPosthoc(tau=0.0).predict(outputs[0], COUNTS), outputs[0].logits)


def test_what_was_learnt_by_heart_of_the_priors_is_taken_off_whole() -> None:
    """Logits that are the log priors say nothing of the images: what is left is the same for all classes."""
    outputs = outputs_of(make_network(), 1)[0]._replace(logits=(COUNTS / COUNTS.sum()).log()[None])
    left = LogitAdjustmentPosthoc().predict(outputs, COUNTS)
    torch.testing.assert_close(left, torch.zeros(1, len(COUNTS)))


@pytest.mark.parametrize("tau", [math.nan, -1.0])
def test_a_strength_that_is_none_is_refused(tau: float) -> None:
    with pytest.raises(ConfigError, match=r"method\.tau"):
        LogitAdjustmentPosthoc(tau=tau)
