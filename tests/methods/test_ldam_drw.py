"""Deferred re-weighting: when weights change and to what, in a term, beside a contrast and in a run that is resumed."""

import math
from pathlib import Path

import pytest
import torch
from tests.methods.small import small_run
from tests.training.conftest import make_tiny_dataset

from proco.augment import Weak
from proco.errors import ConfigError
from proco.losses import LdamLoss, effective_number_weights
from proco.methods.experts import side_by_side
from proco.methods.ldam import Ldam
from proco.methods.ldam_drw import DeferredWeights, LdamDrw
from proco.methods.method import Stage, Targets, Task
from proco.methods.supcon import SupCon
from proco.models.network import Outputs
from proco.optim import OptimConfig
from proco.training.journal import Silent
from proco.training.run_folder import RunFolder
from proco.training.trainer import Trainer

COUNTS = [400, 25, 4]
TASK = Task(torch.tensor(COUNTS), num_features=8, hidden=16, dim=8)
ONES = torch.ones(3)
LATE = effective_number_weights(COUNTS, 0.9999)


def term_of(method: LdamDrw) -> DeferredWeights:
    term = method.term(TASK)
    assert isinstance(term, DeferredWeights)
    return term


@pytest.mark.parametrize(("epochs", "first_late"), [(200, 160), (400, 320), (12, 10), (5, 4), (1, 1)])
def test_weights_change_at_a_share_of_the_epochs(epochs: int, first_late: int) -> None:
    term = term_of(LdamDrw())
    for epoch in range(epochs):
        term.start_epoch(epoch / epochs)
        assert torch.equal(term.criterion.class_weights, LATE if epoch >= first_late else ONES), epoch


def test_an_earlier_epoch_begins_without_weights_again() -> None:
    term = term_of(LdamDrw())
    for done, expected in ((0.9, LATE), (0.1, ONES)):
        term.start_epoch(done)
        assert torch.equal(term.criterion.class_weights, expected)


def test_weights_are_written_in_place() -> None:
    """A recorded step reads them where they were."""
    term = term_of(LdamDrw())
    weights = term.criterion.class_weights
    term.start_epoch(0.9)
    assert term.criterion.class_weights is weights
    assert torch.equal(weights, LATE)


def test_value_before_and_after() -> None:
    torch.manual_seed(0)
    labels = torch.tensor([0, 0, 0, 1, 0, 2])
    outputs = [Outputs(torch.zeros(6, 8), 30 * torch.rand(6, 3), None)]
    (stage,) = LdamDrw().stages(TASK, 10)
    term = stage.terms["ldam_drw"].term
    each = LdamLoss(COUNTS, reduction="none")(outputs[0].logits, labels)
    term.start_epoch(0.7)
    torch.testing.assert_close(term(outputs, Targets.of(labels), None), each.mean())
    term.start_epoch(0.8)
    weights = LATE[labels]
    expected = (weights * each).sum() / weights.sum()
    torch.testing.assert_close(term(outputs, Targets.of(labels), None), expected)
    assert not torch.allclose(expected, each.mean())


def test_beta_zero_is_ldam() -> None:
    term = term_of(LdamDrw(beta=0.0))
    term.start_epoch(1.0)
    assert torch.equal(term.criterion.class_weights, ONES)


def test_settings_reach_the_term() -> None:
    term = term_of(LdamDrw(beta=0.9, deferred_from=0.5, max_margin=0.3, scale=10.0))
    assert (term.begin, term.criterion.max_margin, term.criterion.scale) == (0.5, 0.3, 10.0)
    torch.testing.assert_close(term.late_weights, effective_number_weights(COUNTS, 0.9))
    assert LdamDrw(scale=10.0).classifier(8, 3).scale == 10.0
    assert not {name for name in term.state_dict() if "late" in name}  # they follow from the settings


@pytest.mark.parametrize("experts", [1, 2])
def test_the_share_gets_through_whatever_is_around_the_term(experts: int) -> None:
    method = SupCon(classification=LdamDrw())
    (stage,) = [method.stages(TASK, 10)[0]] if experts == 1 else side_by_side([method.stages(TASK, 10)] * experts)
    assert isinstance(stage, Stage)
    stage.terms["ldam_drw"].term.start_epoch(0.8)
    found = [part for part in stage.terms["ldam_drw"].term.modules() if isinstance(part, LdamLoss)]
    assert found
    assert all(torch.equal(part.class_weights, LATE) for part in found)


class _Watcher(Silent):
    """Notes the weights of every epoch; can stop a run at the end of one."""

    def __init__(self, trainer: Trainer, last: int | None = None) -> None:
        self.trainer, self.last = trainer, last
        self.weights: list[list[float]] = []

    def on_epoch(self, record: dict[str, object]) -> None:
        term = self.trainer.setup.stages[0].terms["ldam_drw"].term
        assert isinstance(term, DeferredWeights)
        self.weights.append(term.criterion.class_weights.tolist())
        if len(self.weights) - 1 == self.last:
            raise KeyboardInterrupt


def make_trainer(method: Ldam) -> Trainer:
    config = small_run(method, optim=OptimConfig(lr=0.03, schedule="cosine"), epochs=15)
    return Trainer(config, make_tiny_dataset())


def test_a_run_learns_and_ends_weighted_after_a_break_too(tmp_path: Path) -> None:
    method = LdamDrw(views=(Weak(padding=1),), beta=0.99)
    late = effective_number_weights([30, 15, 8, 4], 0.99).tolist()
    whole = make_trainer(method)
    watcher = _Watcher(whole)
    summary = whole.fit(RunFolder(tmp_path / "whole"), watcher)
    assert summary["top1"] > 80
    assert watcher.weights == [[1.0] * 4] * 12 + [late] * 3
    stopped = make_trainer(method)
    with pytest.raises(KeyboardInterrupt):
        stopped.fit(RunFolder(tmp_path / "stopped"), _Watcher(stopped, last=12))
    resumed = make_trainer(method)
    watcher = _Watcher(resumed)
    resumed.fit(RunFolder(tmp_path / "stopped"), watcher, resume=True)
    assert watcher.weights == [late] * 2
    files = [RunFolder(tmp_path / name).weights_file.read_bytes() for name in ("whole", "stopped")]
    assert files[0] == files[1]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"deferred_from": 1.1}, r"method\.deferred_from is a share of the epochs, from 0 to 1; got 1\.1"),
        ({"deferred_from": -0.1}, r"method\.deferred_from is a share"),
        ({"beta": 1.0}, r"method\.beta must be at least 0 and below 1; got 1"),
        ({"beta": math.nan}, r"method\.beta must be at least 0 and below 1; got nan"),
        ({"scale": 0.0}, r"method\.scale must be positive"),
    ],
)
def test_numbers_out_of_range_are_refused(settings: dict[str, float], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        LdamDrw(**settings)
