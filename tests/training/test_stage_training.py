"""A stage has a course, a step and random numbers of its own."""

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tests.training.small import PROCO, fit, small_config

from proco.data.dataset import Dataset
from proco.methods.supcon import SupCon
from proco.optim import SGD, OptimConfig
from proco.training.journal import Silent
from proco.training.run_folder import RunError, RunFolder
from proco.training.trainer import Trainer


def test_infinite_loss_stops_the_run_and_names_the_term(tiny_dataset: Dataset, tmp_path: Path) -> None:
    config = replace(small_config(), optim=OptimConfig(lr=1e30, warmup=0.0))
    with pytest.raises(RunError, match=r"logit_adjustment became (nan|inf) in epoch 1, step \d+; no checkpoint"):
        fit(config, tiny_dataset, tmp_path / "run")


def test_sampler_of_the_method_reaches_the_batches(tiny_dataset: Dataset, tmp_path: Path) -> None:
    balanced = replace(PROCO, sampler="class_balanced")
    trainer = Trainer(small_config(balanced, epochs=1), tiny_dataset)
    trainer.fit(RunFolder(tmp_path / "run"))
    seen = trainer.setup.terms[0]["proco"].term.criterion.moments.counts  # two views of each image drawn
    assert seen.sum() == 2 * 48
    assert seen[3] > 2 * 4  # more often than the rarest class has images


def test_automatic_batch_scales_the_learning_rate(tiny_dataset: Dataset, tmp_path: Path) -> None:
    config = replace(small_config(epochs=2), batch_size="auto", optim=OptimConfig(lr=0.8, schedule="constant"))
    fit(config, tiny_dataset, tmp_path / "run")
    assert [record["lr"] for record in RunFolder(tmp_path / "run").records()] == [0.05, 0.05]


@pytest.mark.parametrize(("batch_size", "rate"), [(None, 0.0625), (24, 1.0)])
def test_stage_may_have_batches_of_its_own(
    tiny_dataset: Dataset, tmp_path: Path, went: list[str], batch_size: int | None, rate: float
) -> None:
    method = SupCon(views=PROCO.views, classifier_epochs=1, classifier_lr=1.0, classifier_batch_size=batch_size)
    config = replace(small_config(method, epochs=1), batch_size="auto")
    fit(config, tiny_dataset, tmp_path / "run")
    assert len(went) == 3 + 48 // (batch_size or 16)
    assert RunFolder(tmp_path / "run").records()[1]["lr"] == rate  # scaled only where the run looks for its batch


def test_warm_up_by_steps_reaches_every_step(
    tiny_dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rates: list[float] = []
    step = SGD.step
    monkeypatch.setattr(SGD, "step", lambda self: (rates.append(float(self.rate)), step(self)))
    optim = OptimConfig(lr=0.1, schedule="constant", warmup=0.5, warmup_by="step")
    fit(replace(small_config(epochs=2), optim=optim), tiny_dataset, tmp_path / "run")
    steps = len(rates) // 2
    assert steps > 1
    assert rates == pytest.approx([0.1 * (n + 1) / steps for n in range(steps)] + [0.1] * steps)
    assert [record["lr"] for record in RunFolder(tmp_path / "run").records()] == pytest.approx([0.1, 0.1])


@pytest.fixture
def went(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What optimisers do: "uphill" and "step"."""
    words: list[str] = []
    uphill, step = SGD.uphill, SGD.step
    monkeypatch.setattr(SGD, "uphill", lambda self: (words.append("uphill"), uphill(self))[1])
    monkeypatch.setattr(SGD, "step", lambda self: (words.append("step"), step(self)))
    return words


def test_gradients_are_taken_uphill_in_the_last_epochs(tiny_dataset: Dataset, tmp_path: Path, went: list[str]) -> None:
    optim = OptimConfig(lr=0.1, sharpness=0.05, sharpness_from=0.5)
    fit(replace(small_config(epochs=4), optim=optim), tiny_dataset, tmp_path / "run")
    half = went.count("step") // 2
    assert went == ["step"] * half + ["uphill", "step"] * half


def test_statistics_are_of_the_last_epoch_and_this_one(tiny_dataset: Dataset, tmp_path: Path) -> None:
    """ProCo forgets what is older: the terms hear of every epoch."""
    trainer = Trainer(small_config(epochs=3), tiny_dataset)
    trainer.fit(RunFolder(tmp_path / "run"))
    moments = trainer.setup.terms[0]["proco"].term.criterion.moments
    assert moments.counts.sum() == 2 * 2 * 48  # two epochs, two views, 48 images
    assert moments.running_counts.sum() == 2 * 48


def test_each_stage_has_a_course_of_its_own(tiny_dataset: Dataset, tmp_path: Path, went: list[str]) -> None:
    config = small_config(SupCon(views=PROCO.views, classifier_epochs=3, classifier_lr=1.0), epochs=3)
    config = replace(config, optim=replace(config.optim, warmup=0.0, sharpness=0.05, sharpness_from=0.5))
    folder = RunFolder(tmp_path / "run")
    summary = Trainer(config, tiny_dataset).fit(folder)
    cosine = [0.1 * (0.5 + share) for share in (math.sqrt(2) / 4, 0, -math.sqrt(2) / 4)]
    rates = [record["lr"] for record in folder.records()]
    assert rates == pytest.approx([*cosine, 1.0, 1.0, 0.04])  # 0.2 at each of 1.8 and 2.25, rounded, epochs
    assert went == (["step"] * 6 + ["uphill", "step"] * 3) * 2  # the later half of each, rounded: 3 steps an epoch
    assert summary["last_epoch"] == 5
    checkpoint = folder.load_checkpoint()
    assert checkpoint["images"] == 6 * 48
    assert summary["images_per_second"] == pytest.approx(6 * 48 / checkpoint["train_seconds"])
    assert 0 < checkpoint["train_seconds"] < summary["seconds"]


def test_optimiser_of_a_stage_has_the_settings_of_the_stage(
    tiny_dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    decays: list[float] = []
    step = SGD.step
    monkeypatch.setattr(SGD, "step", lambda self: (decays.append(self.config.weight_decay), step(self)))
    fit(small_config(SupCon(views=PROCO.views, classifier_epochs=1), epochs=1), tiny_dataset, tmp_path / "run")
    assert decays == [2e-4] * 3 + [0.0] * 3


class SeedListener(Silent):
    """Hears by which seed each epoch draws."""

    def __init__(self) -> None:
        self.seeds: dict[int, int] = {}

    def on_step(self, epoch: int, step: int, steps: int) -> None:
        self.seeds.setdefault(epoch, torch.initial_seed())


def test_random_numbers_of_the_network_are_the_epochs_own(tiny_dataset: Dataset, tmp_path: Path) -> None:
    """Dropout, of backbones that have it: other in every epoch, the same in every run of the seed."""
    seeds = []
    for number, seed in enumerate((0, 0, 1)):
        heard = SeedListener()
        torch.manual_seed(number)
        Trainer(small_config(epochs=3, seed=seed), tiny_dataset).fit(RunFolder(tmp_path / f"{number}"), heard)
        seeds.append(heard.seeds)
    assert seeds[0] == seeds[1]
    assert len({*seeds[0].values(), *seeds[2].values()}) == 6


def test_ranks_draw_other_random_numbers_in_the_network(
    tiny_dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seeds: list[int] = []
    for rank in (0, 1):
        # Each as if alone, but for its number.
        monkeypatch.setattr("proco.training.stage_training.rank", lambda number=rank: number)
        Trainer(small_config(epochs=1), tiny_dataset).fit(RunFolder(tmp_path / str(rank)), _SeedNoter(seeds))
    assert len(seeds) == len(set(seeds)) == 2


class _SeedNoter(Silent):
    def __init__(self, seeds: list[int]) -> None:
        self.seeds = seeds

    def on_step(self, epoch: int, step: int, steps: int) -> None:
        if step == 1:
            self.seeds.append(torch.initial_seed())
