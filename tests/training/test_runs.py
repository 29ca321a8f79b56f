"""Finished runs: evaluated again, on their own data or on other, and not trained twice."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.training.test_trainer import PROCO, small_config

from proco.data.arrays import Arrays
from proco.data.dataset import Dataset
from proco.data.prepare import DataConfig
from proco.methods.proco_plus import ProCoPlus
from proco.training.journal import Silent
from proco.training.run_folder import RunError, RunFolder
from proco.training.runs import fit_or_reuse, load_run
from proco.training.settings import TrainConfig
from proco.training.trainer import Trainer


def npz_config(path: Path, dataset: Dataset, **changes: Any) -> TrainConfig:
    """Settings of a run on the data set, saved as a file."""
    arrays = {}
    for name, split in dataset.splits.items():
        arrays[f"{name}_images"] = split.images.pixels.numpy()
        arrays[f"{name}_labels"] = split.labels.numpy()
    np.savez(path, **arrays, class_names=np.array(dataset.class_names))
    return replace(small_config(**changes), data=DataConfig(source=Arrays(path=path)))


def test_finished_run_is_evaluated_and_reused(tiny_dataset: Dataset, tmp_path: Path) -> None:
    config = npz_config(tmp_path / "data.npz", tiny_dataset, ema=0.9, renew_statistics=True)
    folder = RunFolder(tmp_path / "run")
    summary = fit_or_reuse(config, folder, Silent())
    written = folder.weights_file.stat().st_mtime_ns
    assert fit_or_reuse(config, folder, Silent()) == json.loads(json.dumps(summary))
    assert folder.weights_file.stat().st_mtime_ns == written
    assert load_run(folder).evaluate("test").top1 == summary["top1"]
    with pytest.raises(RunError, match="holds a run with other settings"):
        fit_or_reuse(replace(config, seed=5), folder, Silent())


def test_of_experts_the_first_is_kept(tiny_dataset: Dataset, tmp_path: Path) -> None:
    method = ProCoPlus(views=PROCO.views, expert_agreement=0.5, first_expert=True)
    config = npz_config(tmp_path / "data.npz", tiny_dataset, method=method, epochs=2)
    experts = replace(config.network, options={"experts": 2})
    folder = RunFolder(tmp_path / "run")
    summary = fit_or_reuse(replace(config, network=experts), folder, Silent())
    plain = Trainer(replace(config, method=PROCO))  # a network without experts
    plain.network.load_state_dict(folder.load_weights())
    trainer = load_run(folder)
    assert trainer.network.backbone.num_experts == 1
    assert trainer.evaluate("test").top1 == summary["top1"]


def test_evaluation_on_other_data_keeps_the_groups_of_training(tiny_dataset: Dataset, tmp_path: Path) -> None:
    config = npz_config(tmp_path / "data.npz", tiny_dataset)
    folder = RunFolder(tmp_path / "run")
    fit_or_reuse(config, folder, Silent())
    swapped = replace(tiny_dataset, splits={"train": tiny_dataset.splits["test"], "test": tiny_dataset.splits["train"]})
    other = npz_config(tmp_path / "other.npz", swapped)
    trainer = load_run(folder, data=other.data.source)
    assert trainer.class_counts.tolist() == [30, 15, 8, 4]
    renamed = npz_config(tmp_path / "renamed.npz", replace(tiny_dataset, class_names=("a", "b", "c", "d")))
    with pytest.raises(RunError, match="the run knows the classes 'red', 'green', 'blue', 'yellow'"):
        load_run(folder, data=renamed.data.source)
