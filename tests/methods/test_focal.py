"""The focal method: its loss on the first view, and its settings."""

import math

import pytest
import torch

from proco.errors import ConfigError
from proco.methods.focal import Focal
from proco.methods.method import Targets, Task
from proco.models.network import Outputs

TASK = Task(torch.tensor([40, 10, 3]), num_features=64, hidden=16, dim=8)
LABELS = torch.arange(12) % 3


def test_its_term_is_the_loss_of_the_first_view() -> None:
    views = [Outputs(torch.zeros(12, 64), torch.randn(12, 3), None) for _ in range(2)]
    (stage,) = Focal(gamma=2.0).stages(TASK, 5)
    assert (stage.epochs, stage.sampler, list(stage.terms)) == (5, "instance", ["focal"])
    value = stage.terms["focal"].term(views, Targets.of(LABELS), None)
    q = views[0].logits.softmax(dim=1)[torch.arange(12), LABELS]
    torch.testing.assert_close(value, -((1 - q) ** 2 * q.log()).mean())


def test_settings_reach_the_criterion_and_the_classifier_is_the_networks() -> None:
    method = Focal(gamma=0.7)
    assert method.criterion(TASK).gamma == 0.7
    assert Focal().criterion(TASK).gamma == 1.0
    assert method.criterion(TASK, "none")(torch.zeros(4, 3), LABELS[:4]).shape == (4,)
    assert method.classifier(64, 3) is None


@pytest.mark.parametrize("gamma", [-0.1, math.inf, math.nan])
def test_numbers_out_of_range_are_refused(gamma: float) -> None:
    with pytest.raises(ConfigError, match=r"method\.gamma must be finite and not negative"):
        Focal(gamma=gamma)
