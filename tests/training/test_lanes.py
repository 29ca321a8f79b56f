"""Runs side by side: each takes its turn, ends as it would alone, and stops when told to."""

import threading
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from proco.data.dataset import Dataset
from proco.errors import ProCoError
from proco.methods.logit_adjustment import LogitAdjustment
from proco.models.network import NetworkConfig
from proco.training.lanes import in_lanes, wait_for
from proco.training.run_folder import RunFolder
from proco.training.settings import TrainConfig
from proco.training.trainer import Trainer


@pytest.mark.parametrize("lanes", [1, 3])
def test_every_job_is_done_and_its_outcome_known(lanes: int) -> None:
    def job(number: int) -> int:
        if number == 2:
            raise ProCoError("not this one")
        return number * number

    jobs = [lambda number=number: job(number) for number in range(5)]
    outcomes: dict[int, Future[int]] = dict(in_lanes(jobs, lanes, threading.Event()))
    assert sorted(outcomes) == [0, 1, 2, 3, 4]
    assert isinstance(outcomes.pop(2).exception(), ProCoError)
    assert {number: outcome.result() for number, outcome in outcomes.items()} == {0: 0, 1: 1, 3: 9, 4: 16}


def test_one_run_works_at_a_time() -> None:
    busy = threading.Semaphore()
    alone = []

    def job() -> None:
        for _ in range(50):
            alone.append(busy.acquire(blocking=False))
            wait_for(torch.device("cpu"))
            busy.release()

    list(in_lanes([job] * 6, 3, threading.Event()))
    assert all(alone)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="only a GPU is waited for")
def test_others_have_their_turn_while_one_waits() -> None:
    here = threading.Barrier(2, timeout=30)  # passed only if both get to run

    def job() -> None:
        torch.cuda._sleep(10**8)  # type: ignore[no-untyped-call]
        threading.Timer(0, here.wait).start()
        wait_for(torch.device("cuda", 0))
        assert not here.broken

    for _, outcome in in_lanes([job, job], 2, threading.Event()):
        outcome.result()


def test_runs_that_are_broken_off_are_told() -> None:
    stop = threading.Event()

    def job() -> bool:
        return stop.wait(timeout=30)

    outcomes = in_lanes([lambda: True, job, job, job], 2, stop)
    assert next(outcomes)[0] == 0
    with pytest.raises(KeyboardInterrupt):
        outcomes.throw(KeyboardInterrupt)
    assert stop.is_set()


def test_runs_side_by_side_end_as_they_do_alone(tiny_dataset: Dataset, tmp_path: Path) -> None:
    config = TrainConfig(
        epochs=2, batch_size=8, method=LogitAdjustment(), network=NetworkConfig(backbone="resnet8", hidden=16, dim=16)
    )

    def train(seed: int, folder: str) -> dict[str, torch.Tensor]:
        run = RunFolder(tmp_path / folder / str(seed))
        Trainer(replace(config, seed=seed), tiny_dataset).fit(run)
        return run.load_weights()

    alone = [train(seed, "alone") for seed in (0, 1)]
    jobs = [lambda seed=seed: train(seed, "beside") for seed in (0, 1)]
    for number, outcome in in_lanes(jobs, 2, threading.Event()):
        weights = outcome.result()
        for name, value in alone[number].items():
            # On a GPU atomic additions come in any order.
            tolerance = 0 if not torch.cuda.is_available() else 0.05
            torch.testing.assert_close(weights[name], value, rtol=tolerance, atol=tolerance, msg=name)
