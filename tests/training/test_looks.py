"""What is looked at, how often, and with which statistics."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tests.training.small import PROCO, fit, small_config
from torch.nn.functional import interpolate

from proco.augment import Plain, Weak
from proco.data.dataset import Dataset
from proco.errors import ConfigError
from proco.methods.logit_adjustment import LogitAdjustment
from proco.methods.ncm import Ncm
from proco.training.looks import Looks
from proco.training.run_folder import RunFolder
from proco.training.setup import Setup
from proco.training.trainer import Trainer


def test_average_is_what_is_evaluated(tiny_dataset: Dataset, tmp_path: Path) -> None:
    trainer = Trainer(small_config(ema=0.99), tiny_dataset)
    assert trainer.setup.average is not None
    trainer.fit(RunFolder(tmp_path / "run"))
    saved = RunFolder(tmp_path / "run").load_weights()
    assert torch.equal(saved["classifier.weight"], trainer.setup.average.network.classifier.weight)
    assert not torch.equal(saved["classifier.weight"], trainer.setup.network.classifier.weight)


def test_average_is_evaluated_with_statistics_of_its_own(tiny_dataset: Dataset, tmp_path: Path) -> None:
    config = small_config(ema=0.9, epochs=2)
    fit(config, tiny_dataset, tmp_path / "averaged")
    trainer = Trainer(replace(config, renew_statistics=True), tiny_dataset)
    trainer.fit(RunFolder(tmp_path / "renewed"))
    averaged, renewed = (RunFolder(tmp_path / name).load_weights() for name in ("averaged", "renewed"))
    unlike = {name for name in averaged if not torch.allclose(averaged[name], renewed[name])}
    assert unlike
    assert all(name.endswith(("running_mean", "running_var", "num_batches_tracked")) for name in unlike)
    # Of the stem they are known without the network: means over the batches of the last epoch.
    backbone = trainer.setup.average.network.backbone  # type: ignore[union-attr]
    views = [batch.views.flatten(0, 1) for batch in trainer.setup.loaders[0].batches(1)]
    with torch.no_grad():
        hidden = [backbone.stem(trainer.setup.network.normalise(images)) for images in views]
    expected = torch.stack([values.mean(dim=(0, 2, 3)) for values in hidden]).mean(0)
    torch.testing.assert_close(renewed["backbone.stem_norm.running_mean"], expected, rtol=1e-4, atol=1e-5)
    with pytest.raises(ConfigError, match="set ema too"):
        replace(config, ema=None, renew_statistics=True)


@pytest.mark.parametrize("renew", [False, True])
def test_where_the_head_alone_learns_the_average_is_of_that_stage(
    tiny_dataset: Dataset, tmp_path: Path, renew: bool
) -> None:
    """Neither the classifier's random start nor statistics of another stage's views stay in what is kept."""
    method = replace(PROCO, classifier_epochs=2)
    config = small_config(method, ema=0.9999, epochs=6, renew_statistics=renew)
    config = replace(config, network=replace(config.network, classifier="standardised"))
    trainer = Trainer(config, tiny_dataset)
    drawn = {name: value.clone() for name, value in trainer.setup.network.state_dict().items()}
    trainer.fit(RunFolder(tmp_path / "run"))
    kept, last = RunFolder(tmp_path / "run").load_weights(), trainer.setup.network.state_dict()

    def distance(name: str, other: dict[str, torch.Tensor]) -> float:
        return float((kept[name].cpu() - other[name].cpu()).double().norm())

    moved = [name for name in kept if distance(name, drawn) > 0 and kept[name].is_floating_point()]
    assert {"backbone", "classifier"} <= {name.split(".")[0] for name in moved}
    for name in moved:
        assert distance(name, last) < 0.2 * distance(name, drawn), name


def test_frequency_of_evaluation(tiny_dataset: Dataset, tmp_path: Path) -> None:
    config = small_config(LogitAdjustment(views=(Weak(padding=1),)), epochs=5)
    config = replace(config, engine=replace(config.engine, evaluate_every=2))
    fit(config, tiny_dataset, tmp_path / "run")
    assert ["test" in record for record in RunFolder(tmp_path / "run").records()] == [False, True, False, True, True]
    config = replace(config, engine=replace(config.engine, evaluate_every=4, evaluate_last=3))
    fit(config, tiny_dataset, tmp_path / "second")
    assert ["test" in record for record in RunFolder(tmp_path / "second").records()] == [False, False, True, True, True]


def test_with_a_validation_split_the_test_is_looked_at_once(tiny_dataset: Dataset, tmp_path: Path) -> None:
    both = replace(tiny_dataset, splits={**tiny_dataset.splits, "val": tiny_dataset.splits["train"]})
    summary = fit(small_config(), both, tmp_path / "run")
    assert ["test" in record for record in RunFolder(tmp_path / "run").records()] == [False, False, False, True]
    assert all("val" in record for record in RunFolder(tmp_path / "run").records())
    assert (summary["split"], summary["best_split"]) == ("test", "val")


def test_the_last_look_is_the_summary(tiny_dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []
    evaluate = Looks.evaluate
    monkeypatch.setattr(Looks, "evaluate", lambda looks, split: (looked.append(split), evaluate(looks, split))[1])
    summary = fit(small_config(epochs=2), tiny_dataset, tmp_path / "run")
    assert looked == ["test", "test"]  # after each epoch, and not once more
    record = RunFolder(tmp_path / "run").records()[-1]["test"]
    assert {name: summary[name] for name in record} == record


def test_a_classifier_is_fitted_to_what_evaluation_sees(tiny_dataset: Dataset, tmp_path: Path) -> None:
    """The middle of the images, where that is what is evaluated."""
    config = small_config(Ncm(views=(Plain(),)), epochs=1)
    config = replace(config, data=replace(config.data, centre=0.5, size=8))
    fit(config, tiny_dataset, tmp_path / "run")
    weights = RunFolder(tmp_path / "run").load_weights()
    setup = Setup(config, tiny_dataset)
    setup.network.load_state_dict(weights)
    train = tiny_dataset.splits["train"]
    middle = interpolate(train.images.pixels[:, :, 2:6, 2:6].float(), 8, mode="bilinear", antialias=True)

    def distance(images: torch.Tensor) -> float:
        with torch.no_grad():
            centre = setup.network.eval()(images).features.mean(dim=0)
        return float((weights["classifier.centre"] - centre).abs().max())

    assert distance(middle.round().to(torch.uint8)) < 0.01  # of rounded grey levels
    assert distance(train.images.pixels) > 0.05


def test_random_numbers_of_the_average_are_the_epochs_own(tiny_dataset: Dataset, tmp_path: Path) -> None:
    """Dropout as its statistics are renewed: other runs that take turns with this one draw from the same generator."""
    setup = Setup(small_config(ema=0.9, renew_statistics=True), tiny_dataset)
    looks, drawn = Looks(setup), []
    looks.renewal = lambda batches: drawn.append(torch.rand(3))
    for seed, epoch in ((1, 0), (2, 0), (2, 1)):
        torch.manual_seed(seed)
        looks.after(epoch, 0)
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[1], drawn[2])
