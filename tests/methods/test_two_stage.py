"""Methods of two stages: which settings each stage has, and whole runs of them, stopped, resumed and read back."""

import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.methods.small import TASK, small_run
from tests.training.conftest import make_tiny_dataset
from tests.training.power_cut import PowerCut, PowerCutError
from torch import Tensor

from proco.augment import Plain, Weak
from proco.errors import ConfigError
from proco.methods import Method
from proco.methods.batchformer import BatchFormer
from proco.methods.crt import Crt
from proco.methods.disalign import DisAlign
from proco.methods.gcl import Gcl
from proco.methods.logit_adjustment import LogitAdjustment
from proco.methods.lws import Lws
from proco.methods.two_stage import Decoupled, TwoStage
from proco.models.network import Network, NetworkConfig
from proco.training.classifier import Classifier
from proco.training.journal import Silent
from proco.training.run_folder import RunFolder
from proco.training.settings import TrainConfig
from proco.training.setup import Setup
from proco.training.trainer import Trainer

ALL = [kind for kind in Method.registry.values() if issubclass(kind, TwoStage)]
DECOUPLED = [kind for kind in ALL if issubclass(kind, Decoupled)]
FIRST, SECOND = 2, 3  # epochs


def small_config(method: TwoStage, **changes: Any) -> TrainConfig:
    shown = replace(method, views=(Weak(padding=1),), classifier_epochs=SECOND)
    return small_run(shown, **({"epochs": FIRST} | changes))


def is_within(name: str, parts: tuple[str, ...]) -> bool:
    return any(name == part or name.startswith(f"{part}.") for part in parts)


class Between(Silent):
    """Looks at a network as its first stage ends."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.state: dict[str, Tensor] = {}
        self.logits = torch.empty(0)

    def on_epoch(self, record: dict[str, Any]) -> None:
        if record["epoch"] == FIRST - 1:
            self.state = {name: value.clone() for name, value in self.network.state_dict().items()}
            self.logits = logits_of(self.network)


def logits_of(network: Network) -> Tensor:
    was_training = network.training
    with torch.no_grad():
        logits = network.eval()(make_tiny_dataset().splits["test"].images.pixels).logits  # type: ignore[attr-defined]
    network.train(was_training)
    return logits


def train(method: TwoStage, path: Path, **changes: Any) -> tuple[Trainer, Between]:
    trainer = Trainer(small_config(method, **changes), make_tiny_dataset())
    between = Between(trainer.setup.network)
    trainer.fit(RunFolder(path), between)
    return trainer, between


@pytest.mark.parametrize("kind", ALL)
def test_only_what_the_second_stage_is_for_changes_in_it(kind: type[TwoStage], tmp_path: Path) -> None:
    """To the bit, statistics of batch norms too."""
    trainer, between = train(kind(), tmp_path / "run")
    assert any("running_mean" in name for name in between.state)
    for name, value in trainer.setup.network.state_dict().items():
        assert torch.equal(value, between.state[name]) != is_within(name, kind.second_learning), name
    records = RunFolder(tmp_path / "run").records()
    assert [record["stage"] for record in records] == [0] * FIRST + [1] * SECOND
    assert set(records[-1]["losses"]) == {trainer.setup.config.method.name}


@pytest.mark.parametrize("kind", ALL)
def test_the_backbone_learns_in_the_first_stage(kind: type[TwoStage], tmp_path: Path) -> None:
    drawn = Setup(small_config(kind()), make_tiny_dataset()).network.state_dict()
    _, between = train(kind(), tmp_path / "run")
    moved = {name for name, value in between.state.items() if not torch.equal(value, drawn[name])}
    assert any(name.startswith("backbone.") for name in moved)
    assert any(name.startswith("classifier.") for name in moved)
    assert not any(name.endswith("classifier.scale") or "calibration" in name for name in moved)


def test_a_classifier_that_is_trained_anew_begins_anew(tmp_path: Path) -> None:
    """Without a step in the second stage it is as it was drawn: not as the first left it, and of each seed another."""
    heads = {}
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        trainer, between = train(Crt(classifier_lr=0.0), tmp_path / name, seed=seed)
        heads[name] = trainer.setup.network.classifier.weight
        assert not torch.allclose(heads[name], between.state["classifier.weight"], atol=1e-2)
    assert torch.equal(heads["a"], heads["b"])
    assert not torch.equal(heads["a"], heads["c"])


@pytest.mark.parametrize("kind", [Lws, DisAlign, Gcl])
def test_a_second_stage_that_goes_on_begins_where_the_first_ended(kind: type[TwoStage], tmp_path: Path) -> None:
    trainer, between = train(kind(classifier_lr=0.0), tmp_path / "run")
    assert torch.equal(logits_of(trainer.setup.network), between.logits)


@pytest.mark.parametrize("kind", ALL)
def test_every_expert_has_a_second_stage(kind: type[TwoStage], tmp_path: Path) -> None:
    network = NetworkConfig(backbone="resnet8", options={"experts": 2}, hidden=16, dim=16)
    config = replace(small_config(kind()), network=network)
    trainer = Trainer(config, make_tiny_dataset())
    between = Between(trainer.setup.network)
    trainer.fit(RunFolder(tmp_path / "run"), between)
    for name, value in trainer.setup.network.state_dict().items():
        of_one = re.sub(r"^classifier\.[01]\.", "classifier.", name)
        assert torch.equal(value, between.state[name]) != is_within(of_one, kind.second_learning), name


@pytest.mark.parametrize("kind", ALL)
def test_an_average_that_is_stopped_in_the_second_stage_ends_at_the_same_bits(
    kind: type[TwoStage], tmp_path: Path
) -> None:
    train(kind(), tmp_path / "whole", ema=0.9)
    config, folder = small_config(kind(), ema=0.9), RunFolder(tmp_path / "killed")
    with pytest.raises(PowerCutError):
        Trainer(config, make_tiny_dataset()).fit(folder, PowerCut(FIRST + 1, 2))
    assert folder.load_checkpoint()["epoch"] == FIRST + 1  # an epoch of the second stage is over
    Trainer(config, make_tiny_dataset()).fit(folder, resume=True)
    assert folder.weights_file.read_bytes() == RunFolder(tmp_path / "whole").weights_file.read_bytes()


@pytest.mark.parametrize("kind", ALL)
def test_what_is_read_back_predicts_as_the_run_did(kind: type[TwoStage], tmp_path: Path) -> None:
    trainer, _ = train(kind(), tmp_path / "run")
    pixels = make_tiny_dataset().splits["test"].images.pixels  # type: ignore[attr-defined]
    with torch.no_grad():
        outputs = trainer.setup.network.eval()(pixels)
    expected = trainer.setup.config.method.predict(outputs, trainer.setup.class_counts)
    torch.testing.assert_close(Classifier.of(tmp_path / "run", "cpu")(pixels), expected, rtol=0, atol=0)


@pytest.mark.parametrize("kind", ALL)
def test_settings_reach_the_second_stage(kind: type[TwoStage]) -> None:
    views = (Weak(padding=1), Plain())
    method = kind(
        views=views, sampler="reverse", classifier_epochs=7, classifier_lr=0.3, classifier_sampler="square_root"
    )
    first, second = method.stages(TASK, 5)
    assert (first.epochs, first.views, first.sampler) == (5, views, "reverse")
    assert (second.epochs, second.views, second.sampler) == (7, views[:1], "square_root")
    assert first.optim == {}
    assert second.optim == {"lr": 0.3, "schedule": "cosine", "warmup": 0.0}
    assert "backbone" in first.learning
    assert not any(part.startswith("backbone") for part in second.learning)


def test_samplers_are_those_of_the_papers() -> None:
    expected = {Crt: "class_aware", Lws: "class_aware", DisAlign: "instance", Gcl: "class_balanced"}
    assert {kind: kind().stages(TASK, 1)[1].sampler for kind in expected} == expected


@pytest.mark.parametrize("kind", DECOUPLED)
def test_any_method_of_one_classifier_may_come_first(kind: type[Decoupled], tmp_path: Path) -> None:
    first, _ = kind(first=LogitAdjustment(tau=2.0)).stages(TASK, 1)
    (term,) = first.terms.values()
    assert set(first.terms) == {"logit_adjustment"}
    assert term.term.criterion.tau == 2.0
    trainer, _ = train(kind(first=BatchFormer()), tmp_path / "run")
    assert trainer.setup.epochs == FIRST + SECOND


@pytest.mark.parametrize("kind", DECOUPLED)
def test_what_comes_first_has_no_views_of_its_own(kind: type[Decoupled]) -> None:
    for first in (LogitAdjustment(views=(Plain(),)), LogitAdjustment(sampler="reverse")):
        with pytest.raises(ConfigError, match=r"method\.first has no views and no sampler of its own"):
            kind(first=first)


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize(
    ("name", "value"), [("classifier_epochs", 0), ("classifier_lr", -0.1), ("classifier_lr", math.nan)]
)
def test_numbers_out_of_range_are_refused(kind: type[TwoStage], name: str, value: float) -> None:
    with pytest.raises(ConfigError, match=rf"method\.{name} must be"):
        kind(**{name: value})


@pytest.mark.parametrize("kind", ALL)
def test_an_unknown_sampler_is_refused(kind: type[TwoStage]) -> None:
    with pytest.raises(ConfigError, match="class_awere"):
        kind(classifier_sampler="class_awere")
