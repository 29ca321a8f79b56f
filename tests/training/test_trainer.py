"""Training from settings to a summary: it learns, it repeats, and it goes on where it was stopped."""

import json
import math
import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.training.power_cut import PowerCut, PowerCutError
from tests.training.small import PROCO, fit, small_config

from proco.data.array_images import ArrayImages
from proco.data.dataset import Dataset
from proco.evaluation.metrics import Evaluation, Metrics
from proco.methods.cross_entropy import CrossEntropy
from proco.methods.crt import Crt
from proco.methods.proco_plus import ProCoPlus
from proco.methods.supcon import SupCon
from proco.models.network import Network, NetworkConfig
from proco.training.journal import Silent
from proco.training.looks import Looks
from proco.training.run_folder import RunError, RunFolder
from proco.training.settings import EngineConfig, TeacherConfig, TrainConfig
from proco.training.teacher import Teacher
from proco.training.trainer import Trainer


def test_proco_learns_the_colours(tiny_dataset: Dataset, tmp_path: Path) -> None:
    summary = fit(small_config(epochs=12), tiny_dataset, tmp_path / "run")
    assert summary["top1"] > 80
    records = RunFolder(tmp_path / "run").records()
    assert records[-1]["loss"] < 0.5 * records[0]["loss"]


def test_run_folder_holds_everything(tiny_dataset: Dataset, tmp_path: Path) -> None:
    summary = fit(small_config(), tiny_dataset, tmp_path / "run")
    folder = RunFolder(tmp_path / "run")
    expected = {
        "top1", "many", "medium", "few", "balanced_accuracy", "per_class_accuracy", "ece", "seconds",
        "images_per_second", "last_epoch", "best_epoch", "best_top1", "split", "best_split",
    }  # fmt: skip
    assert expected <= set(json.loads(folder.summary_file.read_text()))
    assert summary["last_epoch"] == 3
    assert summary["many"] is None  # no class has more than 100 images
    assert summary["per_class_accuracy"][0] is not None
    records = folder.records()
    assert [record["epoch"] for record in records] == [0, 1, 2, 3]
    assert set(records[0]["losses"]) == {"logit_adjustment", "proco"}
    assert summary["best_top1"] == max(record["test"]["top1"] for record in records)
    assert summary["best_top1"] == records[summary["best_epoch"]]["test"]["top1"]
    assert summary["top1"] == records[-1]["test"]["top1"]  # the last epoch is the number, not the best
    assert list((tmp_path / "run").glob("events.out.tfevents.*"))
    saved = folder.config()
    assert saved.made_with["torch"] == torch.__version__
    assert replace(saved, made_with={}) == small_config()


def test_summary_is_what_the_saved_weights_give(tiny_dataset: Dataset, tmp_path: Path) -> None:
    config = small_config()
    summary = fit(config, tiny_dataset, tmp_path / "run")
    trainer = Trainer(config, tiny_dataset)
    trainer.setup.network.load_state_dict(RunFolder(tmp_path / "run").load_weights())
    trainer.setup.network.eval()
    test = tiny_dataset.splits["test"]
    with torch.no_grad():
        logits = trainer.setup.network(test.images.pixels).logits
    evaluation = Evaluation(4, tiny_dataset.class_counts)
    evaluation.update(logits, test.labels)
    assert evaluation.metrics().top1 == summary["top1"]
    assert (logits.argmax(dim=1) == test.labels).float().mean().item() * 100 == pytest.approx(summary["top1"])


def test_same_seed_same_bits_other_seed_other_weights(tiny_dataset: Dataset, tmp_path: Path) -> None:
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        fit(small_config(epochs=2, seed=seed), tiny_dataset, tmp_path / name)
    weights = {name: RunFolder(tmp_path / name).weights_file.read_bytes() for name in "abc"}
    assert weights["a"] == weights["b"] != weights["c"]


@pytest.mark.parametrize("point", [(0, 1), (1, 2), (2, None), (3, 3), (3, None)])
@pytest.mark.parametrize("changes", [{}, {"ema": 0.9}], ids=["plain", "ema"])
def test_resumed_run_ends_at_the_same_bits(
    tiny_dataset: Dataset, tmp_path: Path, point: tuple[int, int | None], changes: dict[str, Any]
) -> None:
    config = small_config(**changes)
    whole = fit(config, tiny_dataset, tmp_path / "whole")
    folder = RunFolder(tmp_path / "killed")
    with pytest.raises(PowerCutError):
        Trainer(config, tiny_dataset).fit(folder, PowerCut(*point))
    resumed = Trainer(config, tiny_dataset).fit(folder, resume=True)
    assert folder.weights_file.read_bytes() == RunFolder(tmp_path / "whole").weights_file.read_bytes()
    unlike = {"seconds", "images_per_second"}
    assert {k: v for k, v in resumed.items() if k not in unlike} == {k: v for k, v in whole.items() if k not in unlike}
    epochs = [record["epoch"] for record in folder.records()]
    assert epochs == [0, 1, 2, 3]


@pytest.mark.parametrize("method", ["record", "save_checkpoint", "save_weights", "save_summary"])
@pytest.mark.parametrize("call", [0, -1])
def test_kill_while_a_file_is_written_loses_nothing(
    tiny_dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str, call: int
) -> None:
    """Before the first or the last call of each of the methods that write."""
    config = small_config(epochs=3)
    calls = {"record": 3, "save_checkpoint": 3}.get(method, 1)
    whole = fit(config, tiny_dataset, tmp_path / "whole")
    folder = RunFolder(tmp_path / "killed")
    write, left = getattr(RunFolder, method), [calls - 1 if call else 0]

    def killed(*arguments: Any) -> Any:
        if not left[0]:
            raise PowerCutError
        left[0] -= 1
        return write(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(RunFolder, method, killed)
        with pytest.raises(PowerCutError):
            Trainer(config, tiny_dataset).fit(folder)
    resumed = Trainer(config, tiny_dataset).fit(folder, resume=True)
    assert folder.weights_file.read_bytes() == RunFolder(tmp_path / "whole").weights_file.read_bytes()
    assert [record["epoch"] for record in folder.records()] == [0, 1, 2]
    assert resumed["best_top1"] == whole["best_top1"]


def test_trainer_that_has_trained_is_refused_but_to_resume(tiny_dataset: Dataset, tmp_path: Path) -> None:
    whole, killed, other = (RunFolder(tmp_path / name) for name in ("whole", "killed", "other"))
    Trainer(small_config(), tiny_dataset).fit(whole)
    trainer = Trainer(small_config(), tiny_dataset)
    with pytest.raises(PowerCutError):
        trainer.fit(killed, PowerCut(2, 1))
    with pytest.raises(RunError, match="has trained already"):
        trainer.fit(other)
    trainer.fit(killed, resume=True)
    assert killed.weights_file.read_bytes() == whole.weights_file.read_bytes()
    with pytest.raises(RunError, match="is not empty"):
        Trainer(small_config(), tiny_dataset).fit(killed)


def test_weights_that_are_gone_are_written_anew_as_the_message_says(tiny_dataset: Dataset, tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    Trainer(small_config(), tiny_dataset).fit(folder)
    weights, summary = folder.weights_file.read_bytes(), folder.summary()
    folder.weights_file.unlink()
    with pytest.raises(RunError, match=r"Delete .*summary\.json: proco train --resume .*run then writes them anew"):
        folder.load_weights()
    folder.summary_file.unlink()
    Trainer(small_config(), tiny_dataset).fit(folder, resume=True)
    assert folder.weights_file.read_bytes() == weights
    assert folder.summary() == summary | {"images_per_second": folder.summary()["images_per_second"]}


def test_folder_in_which_another_trains_is_refused(tiny_dataset: Dataset, tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")

    class Intruder(Silent):
        def on_step(self, epoch: int, step: int, steps: int) -> None:
            with pytest.raises(RunError, match="is being trained by another process"):
                Trainer(small_config(), tiny_dataset).fit(folder, resume=True)

    Trainer(small_config(epochs=2), tiny_dataset).fit(folder, Intruder())
    assert [record["epoch"] for record in folder.records()] == [0, 1]


def test_resume_on_changed_data_is_refused(tiny_dataset: Dataset, tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    with pytest.raises(PowerCutError):
        Trainer(small_config(), tiny_dataset).fit(folder, PowerCut(2, 1))
    train = tiny_dataset.splits["train"]
    fewer = replace(tiny_dataset, splits={**tiny_dataset.splits, "train": train.subset(torch.arange(1, 57))})
    with pytest.raises(RunError, match="began with other data: that has changed since"):
        Trainer(small_config(), fewer).fit(folder, resume=True)


def whole_and_killed(
    config: TrainConfig, dataset: Dataset, path: Path, point: tuple[int, int | None]
) -> tuple[RunFolder, RunFolder]:
    """Train in one go, and again with a power cut and a new beginning after it."""
    whole, killed = RunFolder(path / "whole"), RunFolder(path / "killed")
    Trainer(config, dataset).fit(whole)
    with pytest.raises(PowerCutError):
        Trainer(config, dataset).fit(killed, PowerCut(*point))
    Trainer(config, dataset).fit(killed, resume=True)
    return whole, killed


@pytest.mark.parametrize("point", [(0, 2), (1, None), (2, 1), (3, None)])
def test_run_of_two_stages_resumes_in_either_and_between_them(
    tiny_dataset: Dataset, tmp_path: Path, point: tuple[int, int | None]
) -> None:
    config = small_config(SupCon(views=PROCO.views, classifier_epochs=2), epochs=2)
    whole, killed = whole_and_killed(config, tiny_dataset, tmp_path, point)
    assert killed.weights_file.read_bytes() == whole.weights_file.read_bytes()
    assert [record["stage"] for record in killed.records()] == [0, 0, 1, 1]
    assert whole.records()[3]["lr"] != whole.records()[0]["lr"]


@pytest.mark.parametrize("point", [(1, None), (2, 2), (3, None), (4, 1)])
def test_run_with_all_that_has_a_state_resumes(
    tiny_dataset: Dataset, tmp_path: Path, point: tuple[int, int | None]
) -> None:
    method = ProCoPlus(views=PROCO.views, past_epochs=2, leave_one_out=True, classifier_epochs=2)
    config = small_config(method, epochs=3)
    config = replace(
        config,
        network=replace(config.network, options={"experts": 2}),
        optim=replace(config.optim, sharpness=0.05, sharpness_from=0.5, nesterov=True),
    )
    whole, killed = whole_and_killed(config, tiny_dataset, tmp_path, point)
    assert killed.weights_file.read_bytes() == whole.weights_file.read_bytes()
    assert [record["stage"] for record in killed.records()] == [0, 0, 0, 1, 1]


@pytest.mark.parametrize("deterministic", [False, True])
def test_deterministic_mode_is_that_of_the_run_alone(
    tiny_dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, deterministic: bool
) -> None:
    modes: list[bool] = []
    looked: list[bool] = []
    evaluate = Looks.evaluate

    def watched(looks: Looks, split: str) -> Metrics:
        looked.append(torch.are_deterministic_algorithms_enabled())
        return evaluate(looks, split)

    monkeypatch.setattr(Looks, "evaluate", watched)

    class Watcher(Silent):
        def on_step(self, epoch: int, step: int, steps: int) -> None:
            modes.append(torch.are_deterministic_algorithms_enabled())

    config = small_config(epochs=1)
    config = replace(config, engine=replace(config.engine, deterministic=deterministic))
    Trainer(config, tiny_dataset).fit(RunFolder(tmp_path / "run"), Watcher())
    assert modes == [deterministic] * 3
    assert set(looked) == {deterministic}
    assert not torch.are_deterministic_algorithms_enabled()


def test_checkpoint_of_other_settings_is_refused(tiny_dataset: Dataset, tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    with pytest.raises(PowerCutError):
        Trainer(small_config(), tiny_dataset).fit(folder, PowerCut(2, 1))
    wider = replace(small_config(), network=NetworkConfig(backbone="resnet8", hidden=32, dim=16))
    others = {
        "network.hidden: 16 there, 32 here": wider,
        "epochs: 4 there, 9 here; seed: 0 there, 7 here": replace(small_config(), epochs=9, seed=7),
    }
    for names, config in others.items():
        with pytest.raises(RunError, match=rf"holds a run with other settings \({names}\)"):
            Trainer(config, tiny_dataset).fit(folder, resume=True)
    with pytest.raises(PowerCutError):
        Trainer(wider, tiny_dataset).fit(RunFolder(tmp_path / "wider"), PowerCut(2, 1))
    shutil.copy(RunFolder(tmp_path / "wider").checkpoint_file, folder.checkpoint_file)
    with pytest.raises(RunError, match="does not fit the settings"):
        Trainer(small_config(), tiny_dataset).fit(folder, resume=True)


def test_caller_keeps_its_random_numbers(tiny_dataset: Dataset, tmp_path: Path) -> None:
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    fit(small_config(epochs=1), tiny_dataset, tmp_path / "run")
    assert torch.equal(torch.rand(1), expected)


def test_frozen_backbone_stays_in_the_epochs_of_its_classifier(tiny_dataset: Dataset, tmp_path: Path) -> None:
    weights = []
    for epochs in (1, 2):
        method, folder = SupCon(views=PROCO.views, classifier_epochs=epochs), tmp_path / str(epochs)
        fit(small_config(method, epochs=1), tiny_dataset, folder)
        weights.append(RunFolder(folder).load_weights())
    one, two = weights
    for name, value in one.items():
        assert torch.equal(value, two[name]) == (not name.startswith("classifier")), name


@pytest.mark.parametrize(("seconds", "written"), [(0, [1, 2, 3, 4, 5]), (3600, [1, 3, 5])])
def test_checkpoints_are_written_as_often_as_asked_after_the_first_epoch_and_at_the_end_of_stages(
    tiny_dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float, written: list[int]
) -> None:
    epochs, save = [], RunFolder.save_checkpoint

    def watched(folder: RunFolder, state: dict[str, Any]) -> None:
        epochs.append(state["epoch"])
        save(folder, state)

    monkeypatch.setattr(RunFolder, "save_checkpoint", watched)
    config = small_config(SupCon(views=PROCO.views, classifier_epochs=2), epochs=3)
    fit(replace(config, engine=replace(config.engine, checkpoint_seconds=seconds)), tiny_dataset, tmp_path / "run")
    assert epochs == written


def test_a_run_whose_checkpoint_is_gone_does_not_write_over_its_weights(tiny_dataset: Dataset, tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    fit(small_config(), tiny_dataset, folder.path)
    before = folder.weights_file.read_bytes()
    folder.checkpoint_file.unlink()
    folder.summary_file.unlink()
    with pytest.raises(RunError, match=r"has weights but no last\.pt to go on from"):
        Trainer(small_config(seed=1), tiny_dataset).fit(folder, resume=True)
    assert folder.weights_file.read_bytes() == before
    assert len(folder.records()) == 4


class Spoiler(Silent):
    """Makes a weight infinite after the last step of the second epoch."""

    def __init__(self, network: Network) -> None:
        self.network = network

    def on_step(self, epoch: int, step: int, steps: int) -> None:
        if (epoch, step) == (1, steps):
            with torch.no_grad():
                self.network.classifier.weight[0, 0] = math.inf


def test_infinite_weights_are_not_saved(tiny_dataset: Dataset, tmp_path: Path) -> None:
    trainer, folder = Trainer(small_config(), tiny_dataset), RunFolder(tmp_path / "run")
    with pytest.raises(RunError, match=r"classifier\.weight became infinite in epoch 2"):
        trainer.fit(folder, Spoiler(trainer.setup.network))
    assert folder.load_checkpoint()["epoch"] == 1  # the last good one


def test_summary_has_the_notes_and_warnings_of_the_data(
    tiny_dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ArrayImages, "warnings", property(lambda images: (f"1 of {len(images)} files went bad",)))
    noted = replace(tiny_dataset, notes=("some images were left out",))
    summary = fit(small_config(epochs=1), noted, tmp_path / "run")
    sizes = [len(split.images) for split in noted.splits.values()]
    assert len(set(sizes)) == 2
    assert summary["notes"] == ["some images were left out", *(f"1 of {size} files went bad" for size in sizes)]


def test_seconds_are_those_that_have_passed(tiny_dataset: Dataset, tmp_path: Path) -> None:
    started = time.perf_counter()
    summary = fit(small_config(), tiny_dataset, tmp_path / "run")
    seconds = [record["seconds"] for record in RunFolder(tmp_path / "run").records()]
    assert seconds == sorted(seconds)
    assert 0 < seconds[0] < seconds[-1] == summary["seconds"] <= time.perf_counter() - started


def test_a_run_says_what_it_trains_and_for_how_long(tiny_dataset: Dataset) -> None:
    assert Trainer(small_config(), tiny_dataset).outline() == "proco: 4 epochs."
    probe = Trainer(small_config(SupCon(views=PROCO.views, classifier_epochs=2)), tiny_dataset)
    assert probe.outline() == "supcon: 4 epochs, then 2 of classifier alone."
    taught = Trainer(small_config(teacher=TeacherConfig(run={"epochs": 1})), tiny_dataset)
    assert taught.outline() == "proco, after its teacher: 4 epochs."


def test_a_run_says_what_it_takes_over(tiny_dataset: Dataset, tmp_path: Path) -> None:
    views = PROCO.views[:1]
    fit(small_config(CrossEntropy(views=views)), tiny_dataset, tmp_path / "first")
    engine = EngineConfig(device="cpu", first_run=tmp_path / "first")
    config = small_config(Crt(views=views, classifier_epochs=2), engine=engine)
    said = Trainer(config, tiny_dataset).outline()
    assert said == f"crt: 4 epochs taken over from {tmp_path / 'first'}, then 2 of classifier alone."


def test_of_a_teacher_that_was_trained_its_network_alone_is_kept(tiny_dataset: Dataset, tmp_path: Path) -> None:
    trainer = Trainer(small_config(teacher=TeacherConfig(run={"epochs": 1}), epochs=1), tiny_dataset)
    heard: list[type] = []

    class Watcher(Silent):
        def on_start(self, first_epoch: int, epochs: int, name: str = "") -> None:
            if not name:
                heard.append(type(trainer.teacher))

    trainer.fit(RunFolder(tmp_path / "run"), Watcher())
    assert heard == [Teacher]
