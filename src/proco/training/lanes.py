"""Several runs at once on one GPU, so that one fills the gaps of another.

A small network leaves a large GPU idle between its kernels and while the host prepares an epoch. Processes do not help,
since a GPU gives them turns; threads with streams of their own do. They take turns on the host: a run gives way only
where it would wait for the GPU, and after some steps. So what a process has one of, such as torch's generators and the
recording of a CUDA graph, is never touched by two at a time.
"""

import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

import torch

T = TypeVar("T")


@dataclass
class _Lane:
    """What a thread has for itself."""

    num_lanes: int
    device: torch.device
    stream: torch.cuda.Stream | None = None
    recording: torch.cuda.Stream | None = None
    steps: int = 0
    last_turn_done: torch.cuda.Event | None = None  # comes when the steps of the last turn are done

    def __post_init__(self) -> None:
        if self.device.type == "cuda":  # once for all runs of a lane: torch has 32 streams and then begins again
            self.stream = torch.cuda.Stream(self.device)  # type: ignore[no-untyped-call]
            self.recording = torch.cuda.Stream(self.device)  # type: ignore[no-untyped-call]


class _Turns:
    """A lock that is given to those who wait in the order in which they came."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._drawn = self._served = 0

    def acquire(self) -> None:
        """Wait for the turn."""
        with self._changed:
            own, self._drawn = self._drawn, self._drawn + 1
            self._changed.wait_for(lambda: self._served == own)

    def release(self) -> None:
        """Let the next have it."""
        with self._changed:
            self._served += 1
            self._changed.notify_all()


_TURN = _Turns()
_STEPS_OF_A_TURN = 32
_thread = threading.local()


def in_lanes(
    jobs: Sequence[Callable[[], T]], lanes: int, stop: threading.Event, device: torch.device
) -> Iterator[tuple[int, Future[T]]]:
    """Run the jobs, so many at a time and in their order, and yield the number and the outcome of each as it ends.

    stop: set when the caller breaks off or is interrupted; jobs that run should look at it. device: where all work.
    """
    lanes = min(lanes, len(jobs))
    if lanes <= 1:  # in the caller's thread, where an interrupt arrives
        for number, job in enumerate(jobs):
            outcome: Future[T] = Future()
            try:
                outcome.set_result(job())
            except Exception as error:
                _let_go(error)
                outcome.set_exception(error)
            yield number, outcome
        return

    def begin() -> None:
        _thread.lane = _Lane(lanes, device)

    with ThreadPoolExecutor(lanes, initializer=begin) as pool:
        numbers = {pool.submit(_take_turns, job): number for number, job in enumerate(jobs)}
        try:
            for outcome in as_completed(list(numbers)):
                yield numbers.pop(outcome), outcome
        except BaseException:
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)  # what waits is not begun
            raise


def lanes_now() -> int:
    """Return how many runs share the device with this one, itself among them."""
    lane = _own_lane()
    return 1 if lane is None else lane.num_lanes


def recording_stream() -> torch.cuda.Stream | None:
    """Return the stream on which this lane records; None, torch's own, outside of lanes.

    On one stream, the graphs of all lanes would share the scratch memory of matrix products, which then run at once.
    """
    lane = _own_lane()
    return None if lane is None else lane.recording


def wait_for(device: torch.device) -> None:
    """Wait until the device has done what this run asked of it; meanwhile it is the others' turn."""
    if device.type != "cuda":
        return
    stream = torch.cuda.current_stream(device)
    if _own_lane() is None:
        stream.synchronize()
        return
    with _turn_of_others():
        stream.synchronize()


def give_way(device: torch.device) -> None:
    """Say that a step was asked for: after some of them the others have their turn, until the GPU has caught up.

    A GPU holds only so much of what it is asked for. A run that asks for more waits within the request, and others, if
    it kept its turn meanwhile, would have nothing there. It goes on with the random numbers that it had.
    """
    lane = _own_lane()
    if lane is None:
        return
    lane.steps += 1
    if lane.steps % _STEPS_OF_A_TURN:
        return
    on_gpu = device.type == "cuda"
    before = lane.last_turn_done
    lane.last_turn_done = torch.cuda.current_stream(device).record_event() if on_gpu else None
    with torch.random.fork_rng([device] if on_gpu else []), _turn_of_others():
        if before is not None:  # the steps of the turn before this one, so that those of this one are still to do
            before.synchronize()


@contextmanager
def _turn_of_others() -> Iterator[None]:
    _TURN.release()
    try:
        yield
    finally:
        _TURN.acquire()


def _own_lane() -> _Lane | None:
    return getattr(_thread, "lane", None)


def _take_turns(job: Callable[[], T]) -> T:
    lane = _own_lane()
    assert lane is not None
    _TURN.acquire()
    try:
        with torch.cuda.stream(lane.stream):
            return job()
    except Exception as error:
        _let_go(error)
        raise
    finally:
        _TURN.release()


def _let_go(error: BaseException | None) -> None:
    """Clear the frames of an error's traceback, so that a run that failed keeps no memory from the others."""
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__
