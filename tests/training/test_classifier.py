"""Trained classifiers: the same figures as in the run, from its folder alone, and on data of some of its classes."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.training.test_runs import npz_config
from torch import nn

from proco.augment import Plain
from proco.data.array_images import ArrayImages
from proco.data.dataset import Dataset, Split
from proco.errors import DataError
from proco.methods.logit_adjustment_posthoc import LogitAdjustmentPosthoc
from proco.models import network as network_module
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
    colours = split.images.pixels[:, :, :1, :1]  # of images that look the same at every size
    small, large = (classify(colours.expand(-1, -1, *size).contiguous()) for size in ((8, 8), (16, 20)))
    torch.testing.assert_close(large, small)
    assert torch.equal(Classifier.of(str(folder.path), "cpu")(split.images.pixels), scores)
    with pytest.raises(TypeError, match=r"images must be a tensor, .* got ndarray\. proco\.data\.decode\.read_image"):
        classify(split.images.pixels.numpy())  # type: ignore[arg-type]
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


@pytest.fixture
def adjusted(tiny_dataset: Dataset, tmp_path: Path) -> tuple[RunFolder, Dataset]:
    """A run of images of 8 x 16, of which the middle of 4 x 4 is evaluated, with an adjustment after training."""
    splits = {
        name: replace(split, images=ArrayImages(split.images.pixels.repeat(1, 1, 1, 2)))
        for name, split in tiny_dataset.splits.items()
    }
    wide = replace(tiny_dataset, splits=splits)
    method = LogitAdjustmentPosthoc(views=(Plain(),), tau=50.0)
    config = npz_config(tmp_path / "wide.npz", wide, method=method, epochs=1)
    config = replace(config, data=replace(config.data, centre=0.5))
    folder = RunFolder(tmp_path / "wide")
    Trainer(config).fit(folder)
    return folder, wide


def test_scores_are_of_the_middle_adjusted_and_one_by_one_as_together(adjusted: tuple[RunFolder, Dataset]) -> None:
    folder, wide = adjusted
    classify = Classifier.of(folder, "cpu")
    assert classify.size == (8, 8)
    test = wide.splits["test"]
    pixels = test.images.pixels
    scores = classify(pixels)
    assert not scores.requires_grad
    torch.testing.assert_close(classify(pixels[:1]), scores[:1])  # no statistics of the batch
    framed = pixels.clone()
    framed[:, :, :2], framed[:, :, -2:] = 0, 255
    torch.testing.assert_close(classify(framed), scores)
    shares = torch.tensor([30, 15, 8, 4]) / 57
    window = pixels[:, :, 2:6, 6:10].float()
    with torch.no_grad():
        seen = nn.functional.interpolate(window, (8, 8), mode="bilinear", antialias=True).round().to(torch.uint8)
        logits = classify.network.eval()(seen).logits
    torch.testing.assert_close(scores, logits - 50 * shares.log(), rtol=1e-2, atol=1e-1)
    inputs: list[torch.Tensor] = []
    with classify.network.register_forward_pre_hook(lambda _, given: inputs.append(given[0])):
        classify(pixels)
        metrics = classify.evaluate(test)
    assert torch.equal(*inputs)  # both look at the same
    right = 100 * (scores.argmax(dim=1) == test.labels).float().mean()
    assert metrics.top1 == folder.summary()["top1"] == pytest.approx(float(right))
    framed_split = Split(ArrayImages(framed), test.labels)
    assert classify.evaluate(framed_split) == metrics
    assert scores.argmax(dim=1).unique().tolist() == [3]  # an adjustment this strong leaves nothing else


def test_a_finished_run_fetches_no_weights(folder: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, build = [], network_module.build_backbone

    def watched(name: str, *, pretrained: bool, **options: Any) -> nn.Module:
        asked.append(pretrained)
        return build(name, **options)

    monkeypatch.setattr(network_module, "build_backbone", watched)
    folder.config_file.write_text(folder.config_file.read_text().replace("pretrained: false", "pretrained: true"))
    assert folder.config().network.pretrained
    Classifier.of(folder, "cpu")
    assert asked == [False]


def test_scores_and_figures_are_computed_as_in_the_run(adjusted: tuple[RunFolder, Dataset]) -> None:
    folder, wide = adjusted
    classify, seen = replace(Classifier.of(folder, "cpu"), autocast=torch.float16), []
    classify.network.backbone.stem.register_forward_hook(lambda _, __, hidden: seen.append(hidden.dtype))
    classify(wide.splits["test"].images.pixels)
    classify.evaluate(wide.splits["test"])
    assert seen == [torch.float16, torch.float16]
