"""What a run consists of is built from its settings, or refused."""

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tests.training.small import PROCO, small_config

from proco.augment import Plain
from proco.data.dataset import Dataset
from proco.errors import ConfigError, DataError
from proco.methods.cross_entropy import CrossEntropy
from proco.methods.logit_adjustment import LogitAdjustment
from proco.methods.logit_adjustment_posthoc import LogitAdjustmentPosthoc
from proco.methods.method import Targets
from proco.methods.proco import ProCo
from proco.methods.proco_plus import ProCoPlus
from proco.methods.tde import Tde
from proco.training.setup import Setup


def test_nothing_to_evaluate_on_is_refused(tiny_dataset: Dataset) -> None:
    with pytest.raises(ConfigError, match="nothing to evaluate on"):
        Setup(small_config(), replace(tiny_dataset, splits={"train": tiny_dataset.splits["train"]}))


def test_a_standardised_classifier_needs_two_images(tiny_dataset: Dataset) -> None:
    config = small_config(CrossEntropy(views=(Plain(),)))
    config = replace(config, network=replace(config.network, classifier="standardised"), batch_size=1)
    with pytest.raises(ConfigError, match="needs batches of 2 images at least"):
        Setup(config, tiny_dataset)


def test_post_hoc_adjustment_subtracts_the_prior(tiny_dataset: Dataset, tmp_path: Path) -> None:
    plain = Setup(small_config(CrossEntropy(views=(Plain(),))), tiny_dataset)
    adjusted = Setup(small_config(LogitAdjustmentPosthoc(views=(Plain(),), tau=1.0)), tiny_dataset)
    outputs = plain.network.eval()(torch.zeros(2, 3, 8, 8, dtype=torch.uint8))
    counts = tiny_dataset.class_counts
    difference = plain.config.method.predict(outputs, counts) - adjusted.config.method.predict(outputs, counts)
    torch.testing.assert_close(difference[0].exp(), counts / counts.sum(), rtol=1e-4, atol=1e-5)


def test_first_loss_is_the_entropy_of_the_prior(tiny_dataset: Dataset) -> None:
    """A classifier that knows nothing, and says so, has H(labels of the batch, prior)."""
    setup = Setup(small_config(LogitAdjustment(views=(Plain(),))), tiny_dataset)
    with torch.no_grad():
        setup.network.classifier.weight.zero_()
        setup.network.classifier.bias.zero_()
    (weighted,) = setup.stages[0].terms.values()
    train = tiny_dataset.splits["train"]
    outputs = setup.network(train.images.pixels)
    share = (tiny_dataset.class_counts / 57).tolist()
    entropy = -sum(p * math.log(p) for p in share)
    assert weighted.term([outputs], Targets.of(train.labels), setup.network.classifier).item() == pytest.approx(
        entropy, rel=1e-5
    )


def test_what_suits_only_some_data_is_said(tiny_dataset: Dataset) -> None:
    assert Setup(small_config(), tiny_dataset).caution() == ""
    said = Setup(small_config(Tde()), tiny_dataset).caution()
    assert said.startswith("alpha=1.5 of tde is that of a hundred classes; with 4 it may take off")
    assert Tde(alpha=0.25).caution(4, is_taught=False) == Tde().caution(100, is_taught=False) == ""
    around = ProCo(classification=Tde())
    assert around.caution(4, is_taught=False) == Tde().caution(4, is_taught=False)
    assert "is to be taught" in ProCoPlus().caution(4, is_taught=False)
    assert ProCoPlus().caution(4, is_taught=True) == ""


def test_what_a_method_pastes_reaches_the_batches(tiny_dataset: Dataset) -> None:
    (loader,) = Setup(small_config(ProCoPlus(views=PROCO.views)), tiny_dataset).loaders
    assert (next(loader.batches(0)).targets.share < 1).any()


def test_terms_too_compute_in_float64(tiny_dataset: Dataset) -> None:
    config = small_config()
    setup = Setup(replace(config, engine=replace(config.engine, precision="float64")), tiny_dataset)
    state = {**setup.network.state_dict(), **setup.terms.state_dict()}
    assert {value.dtype for value in state.values() if value.is_floating_point()} == {torch.float64}


def test_data_of_the_callers_own_must_have_images_of_every_class(tiny_dataset: Dataset) -> None:
    splits = {**tiny_dataset.splits, "train": tiny_dataset.splits["train"].subset(torch.arange(53))}
    with pytest.raises(DataError, match="every class needs at least one training image; 'yellow'"):
        Setup(small_config(), replace(tiny_dataset, splits=splits))


def test_decoding_has_the_threads_that_are_set(tiny_dataset: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr("proco.training.setup.set_decode_threads", asked.append)
    config = small_config()
    Setup(replace(config, engine=replace(config.engine, workers=3)), tiny_dataset)
    assert asked == [3]
