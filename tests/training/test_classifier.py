"""Trained classifiers: the same figures as in the run, from its folder alone, and on data of some of its classes."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tests.training.test_runs import npz_config

from proco.data.dataset import Dataset, Split
from proco.data.images import ArrayImages
from proco.errors import DataError
from proco.training.classifier import Classifier
from proco.training.run_folder import RunError, RunFolder
from proco.training.settings import EngineConfig
from proco.training.trainer import Trainer


@pytest.fixture
def folder(tiny_dataset: Dataset, tmp_path: Path) -> RunFolder:
    """The folder of a finished run; its data is gone."""
    config = npz_config(tmp_path / "data.npz", tiny_dataset, ema=0.9, renew_statistics=True)
    folder = RunFolder(tmp_path / "run")
    Trainer(config).fit(folder)
    (tmp_path / "data.npz").unlink()
    return folder


def test_figures_are_those_of_the_run(folder: RunFolder, tiny_dataset: Dataset) -> None:
    classifier = Classifier.of(folder, "cpu")
    metrics = classifier.evaluate(tiny_dataset.splits["test"])
    summary = folder.summary()
    assert (metrics.top1, metrics.many, metrics.few) == (summary["top1"], summary["many"], summary["few"])
    assert classifier.class_counts.tolist() == [30, 15, 8, 4]


def test_scores_are_of_images_as_they_are(folder: RunFolder, tiny_dataset: Dataset) -> None:
    classify = Classifier.of(folder, "cpu")
    split = tiny_dataset.splits["test"]
    scores = classify(split.images.pixels)
    right = 100 * (scores.argmax(dim=1) == split.labels).float().mean()
    assert float(right) == pytest.approx(folder.summary()["top1"])
    larger = split.images.pixels.repeat_interleave(2, dim=2).repeat_interleave(2, dim=3)
    assert torch.equal(classify(larger).argmax(dim=1), scores.argmax(dim=1))  # the colour tells the class
    with pytest.raises(RunError, match="takes images of 3 channels; got 1"):
        classify(split.images.pixels[:, :1])
    with pytest.raises(DataError, match=r"must be uint8 of shape \(N, C, H, W\)"):
        classify(split.images.pixels[0])


def test_data_may_lack_classes_and_name_them_in_another_order(folder: RunFolder, tiny_dataset: Dataset) -> None:
    classifier = Classifier.of(folder, "cpu")
    test = tiny_dataset.splits["test"]
    some = test.subset(((test.labels == 0) | (test.labels == 2)).nonzero().flatten())
    other = Dataset("some", ("blue", "red"), {"train": replace(some, labels=(some.labels == 0).long())})
    split = classifier.splits_of(other)["train"]
    assert torch.equal(split.labels, some.labels)
    metrics = classifier.evaluate(split)
    all_of_them = classifier.evaluate(test).per_class_accuracy
    assert metrics.per_class_accuracy == (all_of_them[0], None, all_of_them[2], None)
    with pytest.raises(RunError, match="the data has the classes 'black'; the run knows 'red', 'green', 'blue'"):
        classifier.splits_of(replace(other, class_names=("black", "red")))
    grey = Split(ArrayImages(test.images.pixels[:, :1]), test.labels)
    with pytest.raises(RunError, match="takes images of 3 channels; got 1"):
        classifier.evaluate(grey)


def test_caller_keeps_its_random_numbers(folder: RunFolder) -> None:
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    Classifier.of(folder, "cpu")
    assert torch.equal(torch.rand(1), expected)


def test_double_precision_stays(tiny_dataset: Dataset, tmp_path: Path) -> None:
    config = npz_config(tmp_path / "data.npz", tiny_dataset, epochs=1)
    folder = RunFolder(tmp_path / "run")
    Trainer(replace(config, engine=EngineConfig(device="cpu", precision="float64"))).fit(folder)
    assert Classifier.of(folder, "cpu").network.classifier.weight.dtype == torch.float64


def test_weights_of_another_network_are_refused(folder: RunFolder) -> None:
    weights = folder.load_weights()
    folder.save_weights({name: value for name, value in weights.items() if name != "classifier.bias"})
    with pytest.raises(RunError, match="do not fit its settings"):
        Classifier.of(folder, "cpu")
