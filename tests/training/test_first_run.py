"""A finished run taken over as the first stage of another: the same bits, and nothing that does not fit."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.training.conftest import make_tiny_dataset

from proco.augment import Plain, Weak
from proco.data.dataset import Dataset
from proco.errors import ConfigError
from proco.methods import Method
from proco.methods.balanced_softmax import BalancedSoftmax
from proco.methods.cross_entropy import CrossEntropy
from proco.methods.crt import Crt
from proco.methods.focal import Focal
from proco.methods.logit_adjustment_posthoc import LogitAdjustmentPosthoc
from proco.methods.post_hoc import PostHoc
from proco.methods.proco import ProCo
from proco.methods.tau_norm import TauNorm
from proco.methods.two_stage import Decoupled
from proco.models.network import NetworkConfig
from proco.optim import OptimConfig
from proco.training.first_run import beginning_of
from proco.training.journal import Silent
from proco.training.ledger import entry_of
from proco.training.run_folder import RunError, RunFolder
from proco.training.settings import EngineConfig, TeacherConfig, TrainConfig
from proco.training.trainer import Trainer

FIRST, SECOND = 2, 2  # epochs
VIEWS = (Weak(padding=1),)


def config_of(method: Method, **changes: Any) -> TrainConfig:
    shortened = {"classifier_epochs": SECOND} if hasattr(method, "classifier_epochs") else {}
    settings: dict[str, Any] = {
        "network": NetworkConfig(backbone="resnet8"),
        "optim": OptimConfig(lr=0.1, schedule="cosine"),
        "engine": EngineConfig(device="cpu", checkpoint_seconds=0),
        "batch_size": 16,
        "epochs": FIRST,
    }
    return TrainConfig(method=replace(method, views=VIEWS, **shortened), **settings | changes)


def fit(config: TrainConfig, path: Path, first: Path | None = None, dataset: Dataset | None = None) -> dict[str, Any]:
    engine = replace(config.engine, first_run=first)
    return Trainer(replace(config, engine=engine), dataset or make_tiny_dataset()).fit(RunFolder(path))


def beginning(method: Method) -> Method:
    first = method.begins_as()
    assert first is not None
    return first


def methods_that_begin_as_another() -> list[Method]:
    named = [method for kind in Method.registry.values() if (method := kind()).begins_as() is not None]
    return [*named, Crt(first=Focal()), Crt(first=BalancedSoftmax())]


def test_corrections_of_a_classifier_begin_as_another_method() -> None:
    kinds = {type(method) for method in methods_that_begin_as_another()}
    assert {Crt, TauNorm} < kinds
    assert kinds == {kind for kind in Method.registry.values() if issubclass(kind, (PostHoc, Decoupled))}


@pytest.mark.parametrize("method", methods_that_begin_as_another(), ids=lambda method: method.name)
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"ema": 0.9, "renew_statistics": True, "optim": OptimConfig(lr=0.1, sharpness=0.05, sharpness_from=0.5)},
        {"network": NetworkConfig(backbone="resnet8", options={"experts": 2})},
    ],
    ids=["plain", "averaged", "experts"],
)
def test_a_run_that_takes_one_over_ends_as_one_that_trains_all_of_it(
    method: Method, changes: dict[str, Any], tmp_path: Path
) -> None:
    """To the bit: weights, predictions and metrics."""
    fit(config_of(beginning(method), **changes), tmp_path / "first")
    whole = fit(config_of(method, **changes), tmp_path / "whole")
    begun = fit(config_of(method, **changes), tmp_path / "begun", tmp_path / "first")
    expected, found = (RunFolder(tmp_path / name).load_weights() for name in ("whole", "begun"))
    assert expected.keys() == found.keys()
    for name, value in expected.items():
        assert torch.equal(found[name], value), name
    measured = ("top1", "ece", "per_class_accuracy", "last_epoch")
    assert [begun[name] for name in measured] == [whole[name] for name in measured]


def test_what_was_measured_goes_along_without_the_evaluations_of_another_rule(tmp_path: Path) -> None:
    fit(config_of(CrossEntropy()), tmp_path / "first")
    summary = fit(config_of(Crt()), tmp_path / "run", tmp_path / "first")
    fit(config_of(TauNorm()), tmp_path / "corrected", tmp_path / "first")
    first, run, corrected = (RunFolder(tmp_path / name).records() for name in ("first", "run", "corrected"))
    assert [record["epoch"] for record in run] == list(range(FIRST + SECOND))
    assert [record["loss"] for record in run[:FIRST]] == [record["loss"] for record in first]
    assert ["test" in record for record in run] == [False] * FIRST + [True] * SECOND
    assert ["test" in record for record in corrected] == [False] * (FIRST - 1) + [True]
    assert corrected[-1]["test"]["top1"] == RunFolder(tmp_path / "corrected").summary()["top1"]
    assert summary["seconds"] > RunFolder(tmp_path / "first").summary()["seconds"]


def test_only_the_rest_is_trained(tmp_path: Path) -> None:
    heard: list[int] = []

    class Heard(Silent):
        def on_epoch(self, record: dict[str, Any]) -> None:
            heard.append(record["epoch"])

    fit(config_of(CrossEntropy()), tmp_path / "first")
    config = config_of(Crt(), engine=EngineConfig(device="cpu", first_run=tmp_path / "first"))
    Trainer(config, make_tiny_dataset()).fit(RunFolder(tmp_path / "run"), Heard())
    assert heard == [FIRST, FIRST + 1]


class Killed(Silent):
    """Ends a run after its third epoch, as from outside."""

    def on_epoch(self, record: dict[str, Any]) -> None:
        if record["epoch"] == FIRST:
            raise KeyboardInterrupt


class KilledAtOnce(Silent):
    """Ends a run in its first epoch, before there is a checkpoint."""

    def on_step(self, epoch: int, step: int, steps: int) -> None:
        raise KeyboardInterrupt


@pytest.mark.parametrize("checkpoint_seconds", [0.0, 1e9], ids=["with a checkpoint", "before the first"])
def test_one_that_was_stopped_goes_on_to_the_same_bits(checkpoint_seconds: float, tmp_path: Path) -> None:
    fit(config_of(CrossEntropy()), tmp_path / "first")
    fit(config_of(Crt()), tmp_path / "whole", tmp_path / "first")
    engine = EngineConfig(device="cpu", checkpoint_seconds=checkpoint_seconds, first_run=tmp_path / "first")
    config, folder = config_of(Crt(), engine=engine), RunFolder(tmp_path / "run")
    with pytest.raises(KeyboardInterrupt):
        Trainer(config, make_tiny_dataset()).fit(folder, Killed())
    Trainer(folder.config(), make_tiny_dataset()).fit(folder, resume=True)
    for name, value in RunFolder(tmp_path / "whole").load_weights().items():
        assert torch.equal(folder.load_weights()[name], value), name
    assert [record["epoch"] for record in folder.records()] == list(range(FIRST + SECOND))


def test_what_is_begun_again_after_a_stop_says_whose_stage_it_took(tmp_path: Path) -> None:
    fit(config_of(CrossEntropy()), tmp_path / "first")
    engine, folder = EngineConfig(device="cpu", checkpoint_seconds=1e9), RunFolder(tmp_path / "run")
    with pytest.raises(KeyboardInterrupt):
        Trainer(config_of(Crt(), engine=engine), make_tiny_dataset()).fit(folder, KilledAtOnce())
    assert folder.config().engine.first_run is None
    again = config_of(Crt(), engine=EngineConfig(device="cpu", first_run=tmp_path / "first"))
    Trainer(again, make_tiny_dataset()).fit(folder, resume=True)
    assert folder.config().engine.first_run == tmp_path / "first"
    assert entry_of(folder, "tiny/crt")["first_run"] is True


PLAIN_TEACHER = {"epochs": 1, "method": {"name": "cross_entropy", "views": [{"name": "weak", "padding": 1}]}}


def test_its_teacher_goes_on_teaching(tmp_path: Path) -> None:
    taught = {"teacher": TeacherConfig(run=PLAIN_TEACHER)}
    fit(config_of(CrossEntropy(), **taught), tmp_path / "first")
    fit(config_of(Crt(), **taught), tmp_path / "whole")
    trainer = Trainer(
        config_of(Crt(), **taught, engine=EngineConfig(device="cpu", first_run=tmp_path / "first")), make_tiny_dataset()
    )
    summary = trainer.fit(RunFolder(tmp_path / "run"))
    assert not (tmp_path / "run" / "teacher").exists()
    assert summary["teacher_top1"] == RunFolder(tmp_path / "first").summary()["teacher_top1"]
    assert "distillation" in RunFolder(tmp_path / "run").records()[-1]["losses"]
    begun, whole = (RunFolder(tmp_path / name).weights_file.read_bytes() for name in ("run", "whole"))
    assert begun == whole


@pytest.mark.parametrize(
    ("method", "teacher"),
    [
        (Crt(), {}),  # its own teacher is a network of crt
        (Crt(), {"method": "cross_entropy"}),  # with views of another kind
        (LogitAdjustmentPosthoc(), PLAIN_TEACHER),  # its scores have the prior off as they are compared
        (Crt(first=LogitAdjustmentPosthoc()), PLAIN_TEACHER),
    ],
    ids=["of its own method", "of other views", "other scores", "other scores at first"],
)
def test_a_stage_that_would_be_taught_otherwise_is_not_taken_over(
    method: Method, teacher: dict[str, Any], tmp_path: Path
) -> None:
    config = config_of(method, teacher=TeacherConfig(run=teacher))
    assert beginning_of(replace(config, teacher=None)) is not None
    assert beginning_of(config) is None
    with pytest.raises(ConfigError, match=f"the training of {method.name}, with its teacher, begins as that of no"):
        fit(config, tmp_path / "run", tmp_path / "first")


def test_a_finished_teacher_is_the_same_for_both(tmp_path: Path) -> None:
    fit(config_of(CrossEntropy(), epochs=1), tmp_path / "teacher")
    taught = {"teacher": TeacherConfig(path=tmp_path / "teacher")}
    fit(config_of(CrossEntropy(), **taught), tmp_path / "first")
    fit(config_of(Crt(), **taught), tmp_path / "whole")
    fit(config_of(Crt(), **taught), tmp_path / "run", tmp_path / "first")
    begun, whole = (RunFolder(tmp_path / name).weights_file.read_bytes() for name in ("run", "whole"))
    assert begun == whole


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"seed": 1}, "seed"),
        ({"epochs": 3}, "epochs"),
        ({"optim": OptimConfig(lr=0.2)}, r"optim\.lr"),
        ({"method": CrossEntropy(views=(Plain(),))}, r"method\.views"),
        ({"method": Focal(views=VIEWS)}, r"method\.name: focal there, cross_entropy here; method\.gamma"),
        ({"engine": EngineConfig(device="cpu", precision="float64")}, r"engine\.precision"),
    ],
)
def test_a_run_with_other_settings_is_refused(changes: dict[str, Any], name: str, tmp_path: Path) -> None:
    fit(replace(config_of(CrossEntropy()), **changes), tmp_path / "first")
    with pytest.raises(RunError, match=rf"would be cross_entropy with the same settings; {name}: "):
        fit(config_of(Crt()), tmp_path / "run", tmp_path / "first")
    assert not (tmp_path / "run").exists()


def test_how_often_a_run_was_looked_at_does_not_matter(tmp_path: Path) -> None:
    rarely = EngineConfig(device="cpu", evaluate_every=10)
    fit(config_of(CrossEntropy(), engine=rarely), tmp_path / "first")
    fit(config_of(Crt()), tmp_path / "run", tmp_path / "first")


def test_other_data_other_methods_and_what_is_not_there_are_refused(tmp_path: Path) -> None:
    dataset = make_tiny_dataset()
    fit(config_of(CrossEntropy()), tmp_path / "first", dataset=replace(dataset, name="another"))
    summary = json.loads((tmp_path / "first" / "summary.json").read_text())
    (tmp_path / "first" / "summary.json").write_text(json.dumps(summary | {"data_hash": "other"}))
    with pytest.raises(RunError, match="was trained on other data"):
        fit(config_of(Crt()), tmp_path / "run", tmp_path / "first")
    with pytest.raises(ConfigError, match="the training of proco begins as that of no other method"):
        fit(TrainConfig(method=ProCo(), engine=EngineConfig(device="cpu")), tmp_path / "run", tmp_path / "first")
    with pytest.raises(RunError, match="is not a run folder"):
        fit(config_of(Crt()), tmp_path / "run", tmp_path / "nowhere")
    (tmp_path / "first" / "summary.json").write_text(json.dumps(summary))
    (tmp_path / "first" / "checkpoints" / "last.pt").unlink()
    with pytest.raises(RunError, match="has no checkpoint any more"):
        fit(config_of(Crt()), tmp_path / "run", tmp_path / "first")
    (tmp_path / "first" / "summary.json").unlink()
    with pytest.raises(RunError, match="has no summary yet"):
        fit(config_of(Crt()), tmp_path / "run", tmp_path / "first")
    assert not (tmp_path / "run").exists()


def test_a_run_that_begins_as_none_says_so() -> None:
    assert beginning_of(TrainConfig(method=ProCo())) is None


def test_the_ledger_says_that_a_stage_was_shared_and_not_where(tmp_path: Path) -> None:
    fit(config_of(CrossEntropy()), tmp_path / "first")
    fit(config_of(Crt()), tmp_path / "run", tmp_path / "first")
    entry = entry_of(RunFolder(tmp_path / "run"), "tiny/crt")
    assert entry["first_run"] is True
    assert entry["epochs"] == FIRST + SECOND
    assert "first_run" not in entry["config"]["engine"]
    assert "first_run" not in entry_of(RunFolder(tmp_path / "first"), "tiny/cross_entropy")
