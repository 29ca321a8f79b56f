"""Classifier re-training: plain cross-entropy on a classifier drawn anew."""

import pytest
import torch
from tests.methods.small import LABELS, TASK, make_network, outputs_of, values_of
from torch import nn
from torch.nn.functional import cross_entropy

from proco.errors import ConfigError
from proco.methods.crt import Crt
from proco.methods.ldam import Ldam
from proco.methods.logit_adjustment import LogitAdjustment
from proco.methods.logit_adjustment_posthoc import LogitAdjustmentPosthoc
from proco.methods.ncm import Ncm
from proco.methods.one_branch import OneBranch
from proco.methods.tau_norm import TauNorm
from proco.methods.tde import Tde
from proco.models.heads import CosineClassifier


def test_the_second_stage_is_cross_entropy_of_the_whole_classifier_drawn_anew() -> None:
    _, second = Crt(first=LogitAdjustment()).stages(TASK, 1)
    assert second.learning == second.renewed == ("classifier",)
    network = make_network()
    outputs = outputs_of(network, 1)
    torch.testing.assert_close(values_of(second, outputs, network)["crt"], cross_entropy(outputs[0].logits, LABELS))


def test_the_classifier_is_the_one_of_the_first_method() -> None:
    assert Crt().classifier(8, 3) is None
    head = Crt(first=Ldam(scale=7.0)).classifier(8, 3)
    assert isinstance(head, CosineClassifier)
    assert head.scale == 7.0
    assert isinstance(make_network(Crt()).classifier, nn.Linear)


def test_predictions_are_by_the_new_classifier_alone() -> None:
    outputs = outputs_of(make_network(), 1)[0]
    method = Crt(first=LogitAdjustmentPosthoc())
    assert torch.equal(method.predict(outputs, TASK.class_counts), outputs.logits)


@pytest.mark.parametrize("first", [Ncm(), TauNorm(), Tde()], ids=lambda first: first.name)
def test_a_first_method_that_evaluates_otherwise_is_refused(first: OneBranch) -> None:
    with pytest.raises(ConfigError, match=f"method.first: the classifier of {first.name} evaluates otherwise"):
        Crt(first=first).classifier(64, 5)
