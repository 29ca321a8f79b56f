"""Recordings, on a GPU: replayed on what comes in and on the state as it is then; trials leave no trace."""

import gc
import weakref

import pytest
import torch

from proco.training.recording import Recording

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="graphs are recorded on a GPU")


class Counter:
    def __init__(self) -> None:
        self.total = torch.zeros(3, device="cuda")
        self.calls = 0
        self.recording = Recording([self.total])

    def add(self, numbers: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        self.total += factor * numbers.sum(dim=0)
        return self.total * 2

    def __call__(self, numbers: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
        return self.recording.run(self.add, numbers, factor)


def test_replays_add_up_and_trials_do_not() -> None:
    counter = Counter()
    factor = torch.tensor(2.0, device="cuda")
    for number in range(1, 4):
        result = counter(torch.full((4, 3), float(number), device="cuda"), factor)
        expected = 8.0 * number * (number + 1) / 2
        assert counter.total.tolist() == [expected] * 3
        assert result.tolist() == [2 * expected] * 3
    calls = counter.calls
    factor.fill_(0.0)
    counter.total.fill_(1.0)  # state is read anew
    assert counter(torch.ones(4, 3, device="cuda"), factor).tolist() == [2.0] * 3
    assert counter.calls == calls


def test_other_shapes_are_recorded_anew() -> None:
    counter = Counter()
    factor = torch.tensor(1.0, device="cuda")
    counter(torch.ones(4, 3, device="cuda"), factor)
    calls = counter.calls
    counter(torch.ones(6, 3, device="cuda"), factor)
    assert counter.total.tolist() == [10.0] * 3
    assert counter.calls > calls


def test_random_numbers_are_those_of_the_plain_computation() -> None:
    state = torch.zeros(4, device="cuda")
    recording = Recording([state])

    def draw(_: torch.Tensor) -> torch.Tensor:
        return state + torch.rand(4, device="cuda")

    torch.manual_seed(3)
    expected = [torch.rand(4, device="cuda") for _ in range(2)]
    torch.manual_seed(3)
    drawn = [recording.run(draw, state).clone() for _ in range(2)]
    assert torch.equal(torch.stack(drawn), torch.stack(expected))


def test_owner_is_gone_when_nobody_uses_it() -> None:
    counter = Counter()
    counter(torch.ones(4, 3, device="cuda"), torch.tensor(1.0, device="cuda"))
    graph = weakref.ref(counter.recording)
    gc.disable()
    try:
        del counter
        assert graph() is None
    finally:
        gc.enable()
