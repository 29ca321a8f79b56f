"""Runs side by side: each takes its turn, ends as it would alone, and stops when told to."""

import threading
import time
import weakref
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from proco.augment import Plain
from proco.data.dataset import Dataset
from proco.errors import ProCoError
from proco.methods.proco import ProCo
from proco.models.network import NetworkConfig
from proco.training import lanes
from proco.training.device import determinism
from proco.training.lanes import give_way, in_lanes, lanes_now, recording_stream, wait_for
from proco.training.run_folder import RunFolder
from proco.training.settings import EngineConfig, TrainConfig
from proco.training.trainer import Trainer

CPU = torch.device("cpu")


@pytest.mark.parametrize("number_of_lanes", [1, 3])
def test_every_job_is_done_and_its_outcome_known(number_of_lanes: int) -> None:
    def job(number: int) -> int:
        if number == 2:
            raise ProCoError("not this one")
        return number * number

    jobs = [lambda number=number: job(number) for number in range(5)]
    outcomes: dict[int, Future[int]] = dict(in_lanes(jobs, number_of_lanes, threading.Event(), CPU))
    assert sorted(outcomes) == [0, 1, 2, 3, 4]
    assert isinstance(outcomes.pop(2).exception(), ProCoError)
    assert {number: outcome.result() for number, outcome in outcomes.items()} == {0: 0, 1: 1, 3: 9, 4: 16}


@pytest.mark.parametrize("number_of_lanes", [1, 2])
def test_a_job_that_failed_keeps_no_memory_from_the_others(number_of_lanes: int) -> None:
    held: list[weakref.ref[torch.Tensor]] = []

    def fail() -> None:
        memory = torch.zeros(3)
        held.append(weakref.ref(memory))
        try:
            raise RuntimeError("no more memory", memory.shape)
        except RuntimeError as error:
            raise ProCoError("a smaller batch") from error

    outcomes = []
    for _, outcome in in_lanes([fail] * 3, number_of_lanes, threading.Event(), CPU):
        outcomes.append(outcome)
        assert str(outcome.exception()) == "a smaller batch"
    assert [reference() for reference in held] == [None] * 3  # though the outcomes are still there


def test_one_run_works_at_a_time() -> None:
    busy = threading.Semaphore()
    alone = []

    def job() -> None:
        for _ in range(50):
            alone.append(busy.acquire(blocking=False))
            wait_for(torch.device("cpu"))
            time.sleep(1e-4)  # others could run
            busy.release()

    list(in_lanes([job] * 6, 3, threading.Event(), CPU))
    assert all(alone)


def test_runs_give_way_in_turn_and_keep_their_random_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "_STEPS_OF_A_TURN", 2)
    order: list[str] = []

    def job(name: str) -> list[float]:
        while not order and lanes._TURN._drawn < lanes._TURN._served + 3:  # the first goes on when all wait
            time.sleep(1e-3)
        torch.manual_seed(ord(name))
        numbers = []
        for _ in range(8):
            order.append(name)
            numbers.append(float(torch.rand(())))
            give_way(CPU)
        return numbers

    jobs = [lambda name=name: job(name) for name in "abc"]
    outcomes = dict(in_lanes(jobs, 3, threading.Event(), CPU))
    first, second, third = order[0:6:2]
    assert order == [first, first, second, second, third, third] * 4  # two steps a turn, and as many turns for each
    for number, name in enumerate("abc"):
        expected = torch.Generator().manual_seed(ord(name))
        assert outcomes[number].result() == [float(torch.rand((), generator=expected)) for _ in range(8)]
    give_way(CPU)  # outside of lanes there is nobody to give way to


@pytest.mark.skipif(not torch.cuda.is_available(), reason="only a GPU is ahead of or behind its host")
def test_a_run_asks_for_no_more_than_two_turns_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "_STEPS_OF_A_TURN", 1)
    device = torch.device("cuda", 0)

    def job() -> list[tuple[bool, bool]]:
        done, seen = [], []
        for _ in range(4):
            torch.cuda._sleep(2 * 10**8)  # type: ignore[no-untyped-call]
            done.append(torch.cuda.current_stream().record_event())
            give_way(device)
            seen.append((len(done) < 2 or done[-2].query(), done[-1].query()))
        return seen

    for _, outcome in in_lanes([job, job], 2, threading.Event(), device):
        assert outcome.result() == [(True, False)] * 4  # the step before the last is done, the last is not


def test_a_lane_knows_how_many_there_are() -> None:
    assert lanes_now() == 1
    outcomes = dict(in_lanes([lanes_now] * 2, 5, threading.Event(), CPU))
    assert [outcome.result() for outcome in outcomes.values()] == [2, 2]
    assert recording_stream() is None


@pytest.mark.skipif(not torch.cuda.is_available(), reason="only a GPU is waited for")
def test_others_have_their_turn_while_one_waits() -> None:
    said = []

    def job() -> None:
        torch.cuda._sleep(2 * 10**8)  # type: ignore[no-untyped-call]
        said.append("in")
        wait_for(torch.device("cuda", 0))
        said.append("out")

    for _, outcome in in_lanes([job, job], 2, threading.Event(), torch.device("cuda", 0)):
        outcome.result()
    assert said == ["in", "in", "out", "out"]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="streams are a GPU's")
def test_lanes_work_and_record_on_streams_of_their_own() -> None:
    together = threading.Barrier(2, timeout=30)

    def job() -> tuple[int, int]:
        recording = recording_stream()
        assert recording is not None
        lanes._TURN.release()
        together.wait()
        lanes._TURN.acquire()
        return torch.cuda.current_stream().cuda_stream, recording.cuda_stream

    outcomes = in_lanes([job, job], 2, threading.Event(), torch.device("cuda", 0))
    streams = [stream for _, outcome in outcomes for stream in outcome.result()]
    assert len(set(streams)) == 4


def test_runs_that_are_broken_off_are_told() -> None:
    stop = threading.Event()

    def job() -> bool:
        return stop.wait(timeout=30)

    outcomes = in_lanes([lambda: True, job, job, job], 2, stop, CPU)
    assert next(outcomes)[0] == 0
    with pytest.raises(KeyboardInterrupt):
        outcomes.throw(KeyboardInterrupt)
    assert stop.is_set()


def test_runs_side_by_side_end_as_they_do_alone(
    tiny_dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lanes, "_STEPS_OF_A_TURN", 2)  # many turns in an epoch
    device = torch.device("cuda", 0) if torch.cuda.is_available() else CPU
    config = TrainConfig(
        epochs=2,
        batch_size=8,
        method=ProCo(views=(Plain(), Plain(), Plain())),
        network=NetworkConfig(backbone="resnet8", hidden=16, dim=16),
        engine=EngineConfig(deterministic=True),
    )

    def train(seed: int, folder: str) -> dict[str, torch.Tensor]:
        run = RunFolder(tmp_path / folder / str(seed))
        Trainer(replace(config, seed=seed), tiny_dataset).fit(run)
        return run.load_weights()

    alone = [train(seed, "alone") for seed in range(4)]
    jobs = [lambda seed=seed: train(seed, "beside") for seed in range(4)]
    with determinism(config.engine):
        for number, outcome in in_lanes(jobs, 3, threading.Event(), device):
            for name, value in outcome.result().items():
                assert torch.equal(value, alone[number][name]), name
    assert RunFolder(tmp_path / "beside" / "0").config().made_with["lanes"] == "3"
    assert RunFolder(tmp_path / "alone" / "0").config().made_with["lanes"] == "1"
