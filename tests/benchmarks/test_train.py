"""The training benchmark: both loops do the same work; how fast, is not asserted."""

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from benchmarks import train
from proco.data.dataset import Dataset

ROOT = Path(__file__).parents[2]
CPU = torch.device("cpu")


@pytest.fixture
def dataset() -> Dataset:
    return train.generate(train.long_tail(16, 4), num_test=8)


def test_tables(tmp_path: Path) -> None:
    sizes = ["--batch", "4", "--images", "8", "--classes", "4", "--test-images", "6", "--seconds", "0.1"]
    how = ["--backbone", "resnet8", "--variants", "--workers", "1", "--plain-steps", "1"]
    command = [sys.executable, "-m", "benchmarks.train", *sizes, *how, "--json", str(tmp_path / "train.json")]
    subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=True)
    ours, plain = json.loads((tmp_path / "train.json").read_text())["rows"]
    assert (ours["what"], plain["what"]) == ("ours", "plain, 1 workers")
    assert plain["ratio"] == 1
    for row in (ours, plain):
        assert row["images/s"] == pytest.approx(4 * row["steps/s"])
        assert row["ms a step"] == pytest.approx(1e3 / row["steps/s"])
        assert row["ratio"] == pytest.approx(row["steps/s"] / plain["steps/s"])

    parts = {row["part"]: row for row in json.loads((tmp_path / "train_parts.json").read_text())["rows"]}
    assert list(parts) == ["views", "2 steps", "loss, a part of the steps", "evaluation, 6 images", "epoch", "set-up"]
    whole = [parts[name]["share"] for name in ("views", "2 steps", "evaluation, 6 images")]
    assert all(share > 0 for share in whole)
    assert sum(whole) == pytest.approx(1)
    assert parts["set-up"]["ms"] > 0


def test_plain_loop_takes_the_steps_of_ours(dataset: Dataset) -> None:
    config = train.recipe("resnet8", 4, device="cpu", precision="float64")
    ours, plain = train.Loop(config, dataset), train.PlainLoop(config, dataset, CPU, workers=0)
    plain.network.load_state_dict(ours.setup.network.state_dict())
    for module in (plain.network, plain.proco):
        module.double().train()
    mean, std = (torch.tensor(values).double().view(3, 1, 1) for values in (config.data.mean, config.data.std))
    ours.training.learner.start_epoch()
    for batch in ours.views():
        values = ours.training.step(batch)
        loss = plain.step([(view / 255 - mean) / std for view in batch.views], batch.targets.labels)
        torch.testing.assert_close(loss, values[:2].sum(), rtol=1e-5, atol=0)


def test_both_loops_train(dataset: Dataset) -> None:
    config = train.recipe("resnet8", 8, device="cpu")
    ours, plain = train.Loop(config, dataset), train.PlainLoop(config, dataset, CPU, workers=0)
    weights = {ours: ours.training.optimizer.learning, plain: plain.optimizer.param_groups[0]["params"]}
    for loop, columns in ((ours, (3,)), (plain, ())):
        before = [parameter.clone() for parameter in weights[loop]]
        for _ in range(2):
            values = loop.epoch()
            assert values.shape == (2, *columns)
            assert values.isfinite().all()
        assert not any(torch.equal(new, old) for new, old in zip(weights[loop], before, strict=True))


def test_every_variant_has_a_row(dataset: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    def a_second_each(turns: dict[str, Callable[[], object]], *_: object, **__: object) -> dict[str, float]:
        for turn in turns.values():
            turn()
        return dict.fromkeys(turns, 1e3)

    monkeypatch.setattr(train, "interleaved_ms", a_second_each)
    monkeypatch.setattr(train, "LANE_EPOCHS", 2)
    config = train.recipe("resnet8", 8, device="cpu")
    ours, plain = train.Loop(config, dataset), train.PlainLoop(config, dataset, CPU, workers=0, steps=1)
    variants = train.variants_of(ours, train.VARIANTS, dataset)
    before = ours.num_epochs
    rows = {row["what"]: row["steps/s"] for row in train.speeds(ours, plain, variants, seconds=1)}
    assert rows == {
        "ours": 2,
        "ours, float32": 2,
        "ours, no graph": 2,
        "ours, no kernels": 2,
        "ours, 2 lanes": 2 * 2 * 2,
        "ours, 4 lanes": 4 * 2 * 2,
        "plain, 0 workers": 1,
    }
    assert ours.num_epochs - before == 1 + 1 + 2 + 2  # warm-up, alone, and in both rows of lanes


def test_next_to_no_loss_still_has_gradients_everywhere(dataset: Dataset) -> None:
    loop = train.Loop(train.recipe("resnet8", 8, device="cpu"), dataset, with_loss=False)
    assert [type(term) for term in loop.training.learner.terms] == [train.Nothing]
    # Weight decay too would set momenta going.
    loop.training.optimizer.config = replace(loop.training.optimizer.config, weight_decay=0.0)
    loop.epoch()
    momenta = loop.training.optimizer.state_dict().values()
    assert len(momenta) == len(list(loop.training.learner.parameters()))
    assert all(momentum.abs().sum() > 0 for momentum in momenta)


def test_images_are_as_many_as_those_of_the_recipe() -> None:
    counts = train.long_tail(10_847, 100)
    assert (counts[0], counts[-1], counts.sum()) == (500, 5, 10_847)


def test_cutout_blackens_a_square_that_may_reach_over_the_edge() -> None:
    areas = [int((train.Cutout(16)(torch.ones(3, 32, 32))[0] == 0).sum()) for _ in range(200)]
    assert min(areas) >= 8 * 8
    assert max(areas) == 16 * 16
