"""LDAM's method: its loss and its classifier have one scale, and settings reach both."""

import math

import pytest
import torch
from torch.nn.functional import cosine_similarity, cross_entropy

from proco.errors import ConfigError
from proco.losses import LdamLoss
from proco.methods.ldam import Ldam
from proco.methods.method import Targets, Task
from proco.methods.supcon import SupCon
from proco.models.heads import CosineClassifier
from proco.models.network import Outputs

COUNTS = [625, 16, 1]
TASK = Task(torch.tensor(COUNTS), num_features=8, hidden=16, dim=8)
LABELS = torch.arange(12) % 3


def test_its_term_is_the_margin_loss_of_the_cosines() -> None:
    """Written out: the label's cosine loses its margin, then all are scaled."""
    torch.manual_seed(0)
    method, features = Ldam(scale=20.0, max_margin=0.4), torch.randn(12, 8)
    head = method.classifier(8, 3)
    (stage,) = method.stages(TASK, 5)
    outputs = [Outputs(features, head(features), None)]
    value = stage.terms["ldam"].term(outputs, Targets.of(LABELS), head)
    cosines = cosine_similarity(features[:, None], head.weight[None], dim=2)
    cosines[torch.arange(12), LABELS] -= torch.tensor([0.08, 0.2, 0.4])[LABELS]  # 0.4 over the fourth roots 5, 2, 1
    torch.testing.assert_close(value, cross_entropy(20 * cosines, LABELS))
    assert stage.epochs == 5


def test_settings_reach_the_criterion_and_the_classifier() -> None:
    method = Ldam(scale=20.0, max_margin=0.4)
    criterion, head = method.criterion(TASK, "none"), method.classifier(8, 3)
    assert isinstance(criterion, LdamLoss)
    assert isinstance(head, CosineClassifier)
    assert (criterion.scale, head.scale, criterion.max_margin) == (20.0, 20.0, 0.4)
    assert criterion(torch.zeros(4, 3), LABELS[:4]).shape == (4,)
    assert (Ldam().criterion(TASK).scale, Ldam().criterion(TASK).max_margin) == (30.0, 0.5)


def test_it_can_stand_beside_a_contrast() -> None:
    method = SupCon(classification=Ldam(scale=20.0))
    assert isinstance(method.classifier(8, 3), CosineClassifier)
    assert list(method.stages(TASK, 5)[0].terms) == ["ldam", "supcon"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_margin": -0.1}, r"method\.max_margin must be finite and not negative; got -0\.1"),
        ({"scale": 0.0}, r"method\.scale must be positive and finite; got 0"),
        ({"scale": math.inf}, r"method\.scale must be positive and finite; got inf"),
    ],
)
def test_numbers_out_of_range_are_refused(settings: dict[str, float], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Ldam(**settings)
