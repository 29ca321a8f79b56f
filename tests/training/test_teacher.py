"""A run that is taught by another: what it learns, what it leaves behind, and that it goes on where it was stopped."""

import math
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.training.small import small_config
from tests.training.test_runs import npz_config

from proco.augment import Plain
from proco.config import as_settings, merge
from proco.data.array_images import ArrayImages
from proco.data.dataset import Dataset
from proco.errors import ConfigError
from proco.methods.cross_entropy import CrossEntropy
from proco.methods.logit_adjustment_posthoc import LogitAdjustmentPosthoc
from proco.methods.ncm import Ncm
from proco.methods.proco import ProCo
from proco.methods.supcon import SupCon
from proco.models.network import Network, NetworkConfig
from proco.models.normalise import Normalise
from proco.optim import OptimConfig
from proco.training.classifier import Classifier
from proco.training.journal import Silent
from proco.training.ledger import entry_of
from proco.training.run_folder import RunError, RunFolder
from proco.training.runs import fit_or_reuse
from proco.training.settings import EngineConfig, TeacherConfig, TrainConfig
from proco.training.setup import Setup
from proco.training.teacher import Teacher, is_taught
from proco.training.trainer import Trainer

CONFIG = TrainConfig(
    about="a run",
    published={"top1": 50.0},
    method=ProCo(temperature=0.2),
    network=NetworkConfig(backbone="resnet8", hidden=16, dim=16),
    optim=OptimConfig(lr=0.1, schedule="cosine"),
    engine=EngineConfig(device="cpu", checkpoint_seconds=0),
    batch_size=16,
    epochs=3,
    seed=5,
    teacher=TeacherConfig(run={"network": {"options": {"experts": 2}}, "epochs": 2}, weight=0.5),
)


def test_the_teaching_run_is_this_one_but_for_what_is_said() -> None:
    teaching = CONFIG.teaching_run()
    assert teaching.network.options == {"experts": 2}
    assert teaching.epochs == 2
    assert (teaching.method, teaching.optim, teaching.seed) == (CONFIG.method, CONFIG.optim, 5)
    assert (teaching.teacher, teaching.published, teaching.about) == (None, {}, "")
    another = replace(CONFIG, teacher=TeacherConfig(run={"method": "cross_entropy", "ema": 0.9}))
    assert isinstance(another.teaching_run().method, CrossEntropy)
    assert merge(TrainConfig, as_settings(another)) == another


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"weight": 0.0}, r"teacher\.weight must be positive and finite; got 0"),
        ({"temperature": math.inf}, r"teacher\.temperature must be positive and finite; got inf"),
        ({"run": {"data": {"imbalance": 10}}}, r"teacher\.run cannot have data of its own"),
        ({"run": {"teacher": {}}}, r"teacher\.run cannot have teacher of its own"),
        ({"run": {"epoch": 2}}, r"teacher\.run: unknown setting 'epoch'; did you mean 'epochs'"),
        ({"run": {"network": 5}}, r"teacher\.run: network: expected settings of its own, got 5"),
        ({"run": {"ema": 2.0}}, r"teacher\.run: ema is a decay between 0 and 1; got 2"),
    ],
)
def test_wrong_settings_are_refused(wrong: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        merge(TrainConfig, as_settings(replace(CONFIG, teacher=None)), {"teacher": wrong})


@pytest.mark.parametrize("tau", [0.0, 1.0])
def test_teacher_says_what_it_predicts(tau: float) -> None:
    network = Network(CONFIG.network, 3, Normalise(torch.zeros(3), torch.ones(3)))
    counts = torch.tensor([80, 15, 5])
    teacher = Teacher(network, LogitAdjustmentPosthoc(tau=tau), counts)
    images = torch.randint(0, 256, (2, 3, 8, 8), dtype=torch.uint8)
    expected = network(images).logits - tau * (counts / 100).log()
    torch.testing.assert_close(teacher(images), expected)
    assert not network.training
    assert not teacher(images).requires_grad


def test_only_stages_in_which_the_classifier_learns_are_taught(tiny_dataset: Dataset) -> None:
    """Before its turn it is as it was drawn."""
    config = replace(CONFIG, method=SupCon(classifier_epochs=1), teacher=TeacherConfig())
    trainer = Trainer(config, tiny_dataset)
    assert [set(stage.terms) for stage in trainer.setup.stages] == [{"supcon"}, {"logit_adjustment", "distillation"}]
    assert [is_taught(stage) for stage in trainer.setup.stages] == [False, True]


class _Told(Silent):
    """Remembers which runs it was told of; ends one of them before a step or record, as a power cut would."""

    def __init__(self, kill: tuple[str, int, int | None] | None = None) -> None:
        self.names: list[str] = []
        self.kill = kill

    def on_start(self, first_epoch: int, epochs: int, name: str = "") -> None:
        self.names.append(name)

    def on_step(self, epoch: int, step: int, steps: int) -> None:
        if (self.names[-1], epoch, step) == self.kill:
            raise EOFError

    def on_epoch(self, record: dict[str, Any]) -> None:
        if (self.names[-1], record["epoch"], None) == self.kill:
            raise EOFError


def test_run_is_taught_by_the_network_that_the_first_one_kept(tiny_dataset: Dataset, tmp_path: Path) -> None:
    folder, told = RunFolder(tmp_path / "run"), _Told()
    trainer = Trainer(CONFIG, tiny_dataset)
    trainer.fit(folder, told)
    assert told.names == ["teacher", ""]
    assert folder.teacher.config().network.options == {"experts": 2}
    its = folder.teacher.summary()
    assert [len(run.records()) for run in (folder, folder.teacher)] == [3, 2]
    assert all(record["losses"]["distillation"] > 0 for record in folder.records())
    assert all("distillation" not in record["losses"] for record in folder.teacher.records())
    assert entry_of(folder, "taught")["teacher_top1"] == pytest.approx(its["top1"], abs=1e-4)
    # Its weights are those of its own run: nothing that it teaches changes it.
    alone = RunFolder(tmp_path / "alone")
    Trainer(CONFIG.teaching_run(), tiny_dataset).fit(alone)
    assert folder.teacher.weights_file.read_bytes() == alone.weights_file.read_bytes()


def test_a_finished_run_teaches_as_one_that_is_trained_for_it(tiny_dataset: Dataset, tmp_path: Path) -> None:
    whole, alone, lent = (RunFolder(tmp_path / name) for name in ("whole", "alone", "lent"))
    Trainer(CONFIG, tiny_dataset).fit(whole)
    its = Trainer(CONFIG.teaching_run(), tiny_dataset).fit(alone)
    assert CONFIG.teacher is not None
    config, told = replace(CONFIG, teacher=replace(CONFIG.teacher, path=alone.path)), _Told()
    trainer = Trainer(config, tiny_dataset)
    alone.path.rename(tmp_path / "elsewhere")  # it has been read
    summary = trainer.fit(lent, told)
    assert told.names == [""]
    assert not lent.teacher.is_begun
    assert lent.weights_file.read_bytes() == whole.weights_file.read_bytes()
    assert summary["teacher_top1"] == its["top1"]
    assert "path" not in entry_of(lent, "taught")["config"]["teacher"]
    assert merge(TrainConfig, as_settings(config)) == config


def test_a_finished_run_that_cannot_teach_is_refused(tiny_dataset: Dataset, tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    config = replace(CONFIG, teacher=TeacherConfig(path=folder.path))
    with pytest.raises(RunError, match="is not a run folder"):
        Trainer(config, tiny_dataset)
    Trainer(replace(CONFIG, teacher=None, epochs=1), tiny_dataset).fit(folder)
    others = replace(tiny_dataset, class_names=("green", "red", "blue", "yellow"))
    with pytest.raises(RunError, match=r"knows 'red', 'green', .*; it cannot teach 'green', 'red'"):
        Trainer(config, others)
    splits = {
        name: replace(split, images=ArrayImages(split.images.pixels[:, :1]))
        for name, split in tiny_dataset.splits.items()
    }
    with pytest.raises(RunError, match="takes images of 3 channels; got 1"):
        Trainer(config, replace(tiny_dataset, splits=splits))
    with pytest.raises(RunError, match="saw images of 8 x 8 pixels; it cannot teach one that sees 16 x 16"):
        Trainer(replace(config, data=replace(config.data, size=16)), tiny_dataset)


def test_much_of_it_makes_the_network_say_what_the_teacher_says(tiny_dataset: Dataset, tmp_path: Path) -> None:
    def divergence(weight: float) -> float:
        teacher = TeacherConfig(run={"epochs": 4}, weight=weight)
        folder = RunFolder(tmp_path / f"{weight:g}")
        Trainer(replace(CONFIG, epochs=6, seed=1, teacher=teacher), tiny_dataset).fit(folder)
        return float(folder.records()[-1]["losses"]["distillation"])

    assert divergence(3.0) < 0.5 * divergence(1e-6)


@pytest.mark.parametrize("kill", [("teacher", 0, 2), ("teacher", 1, None), ("", 0, 1), ("", 1, None), ("", 2, 1)])
def test_it_resumes_in_either_run_at_the_same_bits(
    tiny_dataset: Dataset, tmp_path: Path, kill: tuple[str, int, int | None]
) -> None:
    whole, killed = RunFolder(tmp_path / "whole"), RunFolder(tmp_path / "killed")
    teacher = TeacherConfig(run={"network": {"options": {"experts": 2}}, "epochs": 2})
    config = replace(CONFIG, ema=0.9, teacher=teacher)
    Trainer(config, tiny_dataset).fit(whole)
    with pytest.raises(EOFError):
        Trainer(config, tiny_dataset).fit(killed, _Told(kill))
    Trainer(config, tiny_dataset).fit(killed, resume=True)
    assert killed.weights_file.read_bytes() == whole.weights_file.read_bytes()
    assert [record["epoch"] for record in killed.records()] == [0, 1, 2]
    assert killed.summary()["seconds"] > killed.teacher.summary()["seconds"]


def test_data_that_changed_before_the_first_checkpoint_is_refused(tiny_dataset: Dataset, tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    with pytest.raises(EOFError):
        Trainer(CONFIG, tiny_dataset).fit(folder, _Told(("", 0, 1)))
    train = tiny_dataset.splits["train"]
    fewer = replace(tiny_dataset, splits={**tiny_dataset.splits, "train": train.subset(torch.arange(1, 57))})
    with pytest.raises(RunError, match="began with other data: that has changed since"):
        Trainer(CONFIG, fewer).fit(folder, resume=True)


def test_what_was_taught_is_loaded_without_its_teacher(tiny_dataset: Dataset, tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    teacher = TeacherConfig(run={"epochs": 1, "optim": {"milestones": (0.5,)}})
    config = npz_config(tmp_path / "data.npz", tiny_dataset, epochs=1, teacher=teacher)
    summary = fit_or_reuse(config, folder, Silent())
    shutil.rmtree(folder.teacher.path)
    assert Classifier.of(folder).evaluate(tiny_dataset.splits["test"]).top1 == summary["top1"]
    assert entry_of(folder, "taught")["teacher_top1"] == pytest.approx(summary["teacher_top1"], abs=1e-4)
    assert fit_or_reuse(config, folder, Silent()) == folder.summary()  # YAML has lists for tuples


def test_teacher_predicts_by_the_method_it_was_trained_by(tiny_dataset: Dataset, tmp_path: Path) -> None:
    """Whether it was trained just now or is read from its folder: after a kill the taught run ends at the same bits."""
    its = {"method": {"name": "logit_adjustment_posthoc", "views": [{"name": "plain"}]}, "epochs": 1}
    config = small_config(epochs=1, teacher=TeacherConfig(run=its))
    folder = RunFolder(tmp_path / "run")
    Trainer(config, tiny_dataset).fit(folder)
    lent = small_config(epochs=1, teacher=TeacherConfig(path=folder.teacher.path))
    Trainer(lent, tiny_dataset).fit(RunFolder(tmp_path / "lent"))
    assert RunFolder(tmp_path / "lent").weights_file.read_bytes() == folder.weights_file.read_bytes()


@pytest.mark.parametrize("temperature", [1.0, 4.0])
def test_settings_of_a_teacher_reach_its_term(tiny_dataset: Dataset, temperature: float) -> None:
    teacher = TeacherConfig(weight=0.25, temperature=temperature)
    weighted = Setup(small_config(teacher=teacher), tiny_dataset).stages[0].terms["distillation"]
    assert (weighted.weight, weighted.term.temperature) == (0.25, temperature)


def test_seconds_of_a_taught_run_are_those_of_both(tiny_dataset: Dataset, tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    config = small_config(epochs=1, teacher=TeacherConfig(run={"epochs": 4}))
    summary = Trainer(config, tiny_dataset).fit(folder)
    assert summary["seconds"] > folder.teacher.summary()["seconds"]


def test_a_pupil_whose_classifier_evaluates_otherwise_is_refused(tiny_dataset: Dataset) -> None:
    config = TrainConfig(
        method=Ncm(views=(Plain(),)),
        network=NetworkConfig(backbone="resnet8"),
        engine=EngineConfig(device="cpu"),
        teacher=TeacherConfig(),
    )
    with pytest.raises(ConfigError, match="the classifier of ncm evaluates otherwise than it trains"):
        Trainer(config, tiny_dataset)
