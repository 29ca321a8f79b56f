"""Finished runs: their data, and that they are not trained twice."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from tests.training.small import small_config

from proco.data.arrays import Arrays
from proco.data.dataset import Dataset
from proco.data.prepare import DataConfig, SharedData
from proco.training.journal import Silent
from proco.training.run_folder import RunError, RunFolder
from proco.training.runs import data_of, fit_or_reuse
from proco.training.settings import TrainConfig


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
    described = replace(config, about="The same.", published={"top1": 50.0})
    assert fit_or_reuse(described, folder, Silent())["top1"] == summary["top1"]
    with pytest.raises(RunError, match="holds a run with other settings"):
        fit_or_reuse(replace(config, seed=5), folder, Silent())
    # With more looks at the split the best of them is another.
    looking = replace(config, engine=replace(config.engine, evaluate_last=3))
    with pytest.raises(RunError, match=r"other settings \(engine\."):
        fit_or_reuse(looking, folder, Silent())


def test_data_of_a_run_is_read_again_unless_it_has_changed(tiny_dataset: Dataset, tmp_path: Path) -> None:
    config = npz_config(tmp_path / "data.npz", tiny_dataset, epochs=1)
    folder = RunFolder(tmp_path / "run")
    fit_or_reuse(config, folder, Silent())
    assert data_of(folder).hash == tiny_dataset.hash
    test = tiny_dataset.splits["test"]
    swapped = replace(tiny_dataset, splits={**tiny_dataset.splits, "test": test.subset(torch.tensor([1, 0]))})
    npz_config(tmp_path / "data.npz", swapped)
    with pytest.raises(RunError, match="has changed since"):
        data_of(folder)


def test_interrupted_run_goes_on_though_made_elsewhere(tiny_dataset: Dataset, tmp_path: Path) -> None:
    config = npz_config(tmp_path / "data.npz", tiny_dataset, epochs=2)
    folder, shared = RunFolder(tmp_path / "run"), SharedData()

    class Cut(Silent):
        starts: ClassVar[list[int]] = []

        def on_start(self, first_epoch: int, epochs: int, name: str = "") -> None:
            self.starts.append(first_epoch)

        def on_epoch(self, record: dict[str, Any]) -> None:
            if len(self.starts) == 1:
                raise EOFError

    with pytest.raises(EOFError):
        fit_or_reuse(config, folder, Cut(), data=shared)
    with pytest.raises(RunError, match=r"other settings \(optim\."):
        fit_or_reuse(replace(config, optim=replace(config.optim, lr=0.2)), folder, Cut(), data=shared)
    for change in ({"precision": "float64"}, {"evaluate_every": 3}):
        with pytest.raises(RunError, match=r"other settings \(engine\."):
            fit_or_reuse(replace(config, engine=replace(config.engine, **change)), folder, Cut(), data=shared)
    (tmp_path / "data.npz").unlink()  # the data is shared, and not read again
    other_means = replace(config.engine, workers=3, checkpoint_seconds=1.0)
    fit_or_reuse(replace(config, made_with={"torch": "another"}, engine=other_means), folder, Cut(), data=shared)
    assert Cut.starts == [0, 1]
