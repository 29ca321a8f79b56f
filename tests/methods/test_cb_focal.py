"""The class-balanced focal method: its loss, its classifier, and that they train together."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.methods.small import small_run
from tests.training.conftest import make_tiny_dataset

from proco.augment import Weak
from proco.errors import ConfigError
from proco.losses import ClassBalancedFocalLoss
from proco.methods.cb_focal import CbFocal
from proco.methods.method import Targets, Task
from proco.models.heads import RareEventClassifier
from proco.models.network import Outputs
from proco.optim import SGD, OptimConfig
from proco.training.learner import Learner
from proco.training.run_folder import RunFolder
from proco.training.trainer import Trainer

TASK = Task(torch.tensor([40, 10, 3]), num_features=64, hidden=16, dim=8)
LABELS = torch.arange(12) % 3


def make_trainer(**optim: Any) -> Trainer:
    config = small_run(CbFocal(views=(Weak(padding=1),)), optim=OptimConfig(schedule="cosine", **optim), epochs=12)
    return Trainer(config, make_tiny_dataset())


def test_its_term_is_the_loss_of_the_first_view() -> None:
    views = [Outputs(torch.zeros(12, 64), torch.randn(12, 3), None) for _ in range(2)]
    (stage,) = CbFocal(beta=0.9, gamma=2.0).stages(TASK, 5)
    value = stage.terms["cb_focal"].term(views, Targets.of(LABELS), None)
    torch.testing.assert_close(value, ClassBalancedFocalLoss([40, 10, 3], beta=0.9, gamma=2.0)(views[0].logits, LABELS))


def test_settings_reach_the_criterion() -> None:
    criterion = CbFocal(beta=0.9, gamma=0.5).criterion(TASK, "none")
    assert (criterion.beta, criterion.gamma) == (0.9, 0.5)
    assert criterion(torch.zeros(4, 3), LABELS[:4]).shape == (4,)
    assert (CbFocal().criterion(TASK).beta, CbFocal().criterion(TASK).gamma) == (0.9999, 1.0)


def test_an_untrained_network_loses_little() -> None:
    """By the odds a hundred questions cost about as much as one choice; by halves they cost 100 log 2."""
    criterion = ClassBalancedFocalLoss([10] * 100, gamma=0.0)
    labels = torch.arange(100)
    at_the_odds = criterion(CbFocal().classifier(64, 100)(torch.zeros(100, 64)), labels)
    assert at_the_odds.item() == pytest.approx(math.log(100) + 99 * -math.log(0.99), rel=1e-4)
    assert criterion(torch.zeros(100, 100), labels).item() == pytest.approx(100 * math.log(2))


def test_it_learns(tmp_path: Path) -> None:
    trainer = make_trainer(lr=0.1)
    assert isinstance(trainer.setup.network.classifier, RareEventClassifier)
    assert trainer.fit(RunFolder(tmp_path / "run"))["top1"] > 80


def test_weight_decay_leaves_the_bias_alone() -> None:
    """Without gradients all else shrinks by what decays it."""
    trainer = make_trainer(lr=0.1, weight_decay=0.5)
    head = trainer.setup.network.classifier
    learner = Learner(trainer.setup.network, trainer.setup.stages[0], None)
    optimizer = SGD(learner.parameters(), trainer.setup.config.optim, learner.without_decay())
    weight, bias = head.weight.detach().clone(), head.bias.detach().clone()
    for parameter in learner.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    assert (head.weight.abs() < weight.abs()).all()
    assert torch.equal(head.bias, bias)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"gamma": -1.0}, r"method\.gamma must be finite and not negative; got -1"),
        ({"beta": 1.0}, r"method\.beta must be at least 0 and below 1; got 1"),
        ({"beta": -0.5}, r"method\.beta must be at least 0 and below 1; got -0\.5"),
        ({"beta": math.nan}, r"method\.beta must be at least 0 and below 1; got nan"),
    ],
)
def test_numbers_out_of_range_are_refused(settings: dict[str, float], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        CbFocal(**settings)
