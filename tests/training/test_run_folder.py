"""What a run leaves behind, and what it leaves alone."""

import json
import os
from pathlib import Path

import pytest
import torch

from proco.training.run_folder import RunError, RunFolder
from proco.training.settings import TrainConfig


def test_settings_come_back_as_they_were(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    config = TrainConfig(epochs=3, seed=7, made_with={"torch": "2"})
    folder.begin(config)
    assert folder.config() == config


def test_what_is_there_is_never_overwritten(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(RunError, match="is not empty and is left as it is"):
        RunFolder(tmp_path).begin(TrainConfig())
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_run_that_begins_again_says_how(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    folder.begin(TrainConfig(made_with={"lanes": "2"}))
    with pytest.raises(RunError, match="is not empty"):
        folder.begin(TrainConfig(made_with={"lanes": "1"}))
    folder.begin(TrainConfig(made_with={"lanes": "1"}), again=True)
    assert folder.config().made_with == {"lanes": "1"}


def test_records_after_the_checkpoint_and_a_line_cut_short_are_dropped(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    folder.begin(TrainConfig())
    for epoch in range(4):
        folder.record({"epoch": epoch})
    with folder.metrics_file.open("a") as file:
        file.write('{"epoch": 4, "lo')
    folder.forget_records_from(2)
    assert folder.records() == [{"epoch": 0}, {"epoch": 1}]


def test_checkpoints_come_back_and_damaged_ones_are_named(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    folder.begin(TrainConfig())
    assert folder.load_checkpoint() is None
    folder.save_checkpoint({"epoch": 3, "network": {"weight": torch.ones(2)}})
    assert folder.load_checkpoint()["epoch"] == 3  # type: ignore[index]
    folder.checkpoint_file.write_bytes(b"half a file")
    with pytest.raises(RunError, match=r"last\.pt cannot be read"):
        folder.load_checkpoint()


@pytest.mark.parametrize("kind", [OSError, RuntimeError])
def test_a_save_that_fails_keeps_the_last_good_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type[Exception]
) -> None:
    folder = RunFolder(tmp_path / "run")
    folder.begin(TrainConfig())
    folder.save_checkpoint({"epoch": 3})

    def full_disk(state: object, path: Path) -> None:
        path.write_bytes(b"half")
        raise kind("No space left on device")

    monkeypatch.setattr(torch, "save", full_disk)
    with pytest.raises(RunError, match=r"cannot write .*last\.pt: No space"):
        folder.save_checkpoint({"epoch": 4})
    assert folder.load_checkpoint() == {"epoch": 3}
    assert [path.name for path in folder.checkpoint_file.parent.iterdir()] == ["last.pt"]  # no half one takes its room


def test_weights_are_safetensors_and_the_summary_is_json(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    folder.begin(TrainConfig())
    with pytest.raises(RunError, match="has no weights yet"):
        folder.load_weights()
    with pytest.raises(RunError, match="has no summary yet"):
        folder.summary()
    folder.save_weights({"weight": torch.arange(4.0).view(2, 2).T})
    assert torch.equal(folder.load_weights()["weight"], torch.arange(4.0).view(2, 2).T)
    folder.save_summary({"top1": 50.0})
    assert json.loads(folder.summary_file.read_text()) == folder.summary() == {"top1": 50.0}
    folder.weights_file.unlink()
    with pytest.raises(RunError, match=r"are gone, weights\.safetensors\. There is no checkpoint either: train anew"):
        folder.load_weights()
    folder.save_checkpoint({"epoch": 3})
    with pytest.raises(RunError, match=r"Delete .*summary\.json: proco train --resume .*run then writes them anew"):
        folder.load_weights()
    folder.weights_file.write_bytes(b"half a file")
    with pytest.raises(RunError, match=r"cannot be read \(.*\)\. Delete .*weights\.safetensors and .*summary\.json: "):
        folder.load_weights()


def test_a_folder_without_a_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"is not a run folder: it has no config\.yaml"):
        RunFolder(tmp_path).config()


def test_a_folder_cut_short_before_its_settings_is_begun_anew(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    folder.path.mkdir()
    (folder.path / "config.yaml.partial").write_text("epo")
    folder.begin(TrainConfig(epochs=3))
    assert folder.config().epochs == 3
    folder.save_checkpoint({"epoch": 1})  # makes its own folder
    assert folder.load_checkpoint() == {"epoch": 1}


def test_checkpoints_are_not_unpickled(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.checkpoint_file.parent.mkdir()
    torch.save({"epoch": TrainConfig}, folder.checkpoint_file)  # anything that is no number or tensor
    with pytest.raises(RunError, match="cannot be read"):
        folder.load_checkpoint()


def test_records_are_on_the_disk_before_the_checkpoint_after_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A power cut between the two would else leave a gap in the records for good."""
    folder, synced = RunFolder(tmp_path), []
    sync = os.fsync
    monkeypatch.setattr(os, "fsync", lambda number: (synced.append(os.fstat(number).st_ino), sync(number))[1])
    folder.record({"epoch": 0})
    folder.save_checkpoint({"epoch": 1})
    assert synced == [folder.metrics_file.stat().st_ino, folder.checkpoint_file.stat().st_ino]
