"""The ledger's entries against the run they come from."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tests.training.test_runs import npz_config
from tests.training.test_trainer import PROCO

from proco.data.dataset import Dataset
from proco.data.prepare import DataConfig
from proco.methods.proco import ProCo
from proco.methods.supcon import SupCon
from proco.models.network import NetworkConfig
from proco.training.ledger import entry_of, read_entries, write_entry
from proco.training.run_folder import RunFolder
from proco.training.settings import EngineConfig, TrainConfig
from proco.training.trainer import Trainer

KEYS = (
    "recipe method dataset imbalance epochs seed top1 many medium few best_top1 mean_last_20 seconds hardware torch "
    "commit config curve"
)
CONFIG = TrainConfig(
    data=DataConfig(profile="exponential", imbalance=50),
    epochs=3,
    batch_size=8,
    method=ProCo(weight=0.5),
    network=NetworkConfig(backbone="resnet8", hidden=16, dim=16),
)


@pytest.fixture
def folder(tiny_dataset: Dataset, tmp_path: Path) -> RunFolder:
    folder = RunFolder(tmp_path / "run")
    Trainer(CONFIG, tiny_dataset).fit(folder)
    return folder


def test_entry_says_what_the_run_gave(folder: RunFolder) -> None:
    entry = entry_of(folder, "some/recipe")
    assert set(KEYS.split()) <= set(entry)
    records, summary = folder.records(), folder.summary()
    assert entry["recipe"] == "some/recipe"
    assert entry["method"] == "proco"
    assert entry["lanes"] == 1
    assert entry["epochs"] == 3
    assert entry["top1"] == pytest.approx(summary["top1"], abs=1e-4)
    assert entry["best_top1"] == pytest.approx(max(record["test"]["top1"] for record in records), abs=1e-4)
    assert entry["mean_last_20"] == pytest.approx(sum(record["test"]["top1"] for record in records) / 3, abs=1e-4)
    assert entry["curve"]["top1"][-1] == entry["top1"]
    assert entry["curve"]["proco"] == [pytest.approx(record["losses"]["proco"], abs=1e-4) for record in records]
    assert entry["config"]["method"]["weight"] == 0.5
    config = folder.config()
    assert (entry["dataset"], entry["imbalance"]) == ("fashion_mnist_lt", 50)
    assert (entry["hardware"], entry["torch"]) == (config.made_with["hardware"], config.made_with["torch"])
    assert entry["commit"] == config.made_with.get("commit", "")


def test_time_and_the_last_twenty_epochs(folder: RunFolder) -> None:
    folder.save_summary(folder.summary() | {"seconds": 12.0, "images_per_second": 345.0})
    record = folder.records()[0]
    folder.forget_records_from(0)
    for epoch in range(30):
        folder.record(record | {"epoch": epoch, "test": record["test"] | {"top1": float(epoch)}})
    entry = entry_of(folder, "a")
    assert (entry["seconds"], entry["images_per_second"]) == (12.0, 345.0)
    assert entry["mean_last_20"] == 19.5  # of 10 to 29


def test_mean_of_the_last_epochs_is_of_all_of_them(tiny_dataset: Dataset, tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    Trainer(replace(CONFIG, engine=EngineConfig(evaluate_every=2)), tiny_dataset).fit(folder)
    entry = entry_of(folder, "some/recipe")
    assert entry["curve"]["top1"][0] is None
    assert entry["mean_last_20"] is None


def test_entries_are_read_back(folder: RunFolder, tmp_path: Path) -> None:
    path = write_entry(tmp_path / "results", folder, "some/recipe")
    assert path == tmp_path / "results" / "some" / "recipe" / "seed0.json"
    assert read_entries(tmp_path / "results") == [entry_of(folder, "some/recipe")] == [json.loads(path.read_text())]


def test_entries_come_in_the_order_of_their_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("b/seed0", "a/seed1", "a/seed0"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / f"{name}.json").write_text(json.dumps(name))
    found = Path.rglob
    monkeypatch.setattr(Path, "rglob", lambda *words: sorted(found(*words), reverse=True))  # a file system may
    assert read_entries(tmp_path) == ["a/seed0", "a/seed1", "b/seed0"]


def test_entry_of_a_run_of_two_stages_and_three_splits(tiny_dataset: Dataset, tmp_path: Path) -> None:
    splits = {**tiny_dataset.splits, "val": tiny_dataset.splits["train"].subset(torch.arange(0, 57, 3))}
    method = SupCon(views=PROCO.views, classifier_epochs=2)
    data = replace(tiny_dataset, splits=splits)
    config = npz_config(tmp_path / "data.npz", data, method=method, epochs=1, seed=3)
    folder = RunFolder(tmp_path / "run")
    Trainer(config).fit(folder)
    figures = {"top1": 60.0, "many": 70.0, "medium": 50.0, "few": 0.0, "balanced_accuracy": 45.0}
    folder.save_summary(folder.summary() | figures)
    noted = folder.config_file.read_text()
    folder.config_file.write_text(noted.replace("lanes: '1'", "lanes: '4'"))
    entry, records = entry_of(folder, "a"), folder.records()
    assert {name: entry[name] for name in figures} == figures
    assert (entry["seed"], entry["lanes"], entry["split"], entry["curve"]["split"]) == (3, 4, "test", "val")
    assert entry["curve"]["top1"] == pytest.approx([record["val"]["top1"] for record in records], abs=1e-4)
    assert entry["curve"]["accuracy"] == pytest.approx([record["accuracy"] for record in records], abs=1e-4)
    assert [value is None for value in entry["curve"]["supcon"]] == [False, True, True]
    assert [value is None for value in entry["curve"]["logit_adjustment"]] == [True, False, False]
    assert str(tmp_path) not in str(entry)  # where it lay on that machine tells nobody anything
