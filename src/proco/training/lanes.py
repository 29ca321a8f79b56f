"""Several runs at once on one GPU, so that one fills the gaps of another.

A small network leaves a large GPU idle between its kernels and while the host prepares an epoch. Processes do not help,
since a GPU gives them turns; threads with streams of their own do. They take turns on the host: a run gives way only
where it would wait for the GPU. So what a process has one of, such as torch's generators and the recording of a CUDA
graph, is never touched by two.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from typing import TypeVar

import torch

T = TypeVar("T")

_TURN = threading.Lock()
_thread = threading.local()


def in_lanes(jobs: Sequence[Callable[[], T]], lanes: int, stop: threading.Event) -> Iterator[tuple[int, Future[T]]]:
    """Run the jobs, so many at a time and in their order, and yield the number and the outcome of each as it ends.

    stop: set when the caller breaks off or is interrupted; jobs that run should look at it.
    """
    if lanes == 1:  # in the caller's thread, where an interrupt arrives
        for number, job in enumerate(jobs):
            outcome: Future[T] = Future()
            try:
                outcome.set_result(job())
            except Exception as error:
                outcome.set_exception(error)
            yield number, outcome
        return
    with ThreadPoolExecutor(lanes) as pool:
        numbers = {pool.submit(_take_turns, job): number for number, job in enumerate(jobs)}
        try:
            for outcome in as_completed(numbers):
                yield numbers[outcome], outcome
        except BaseException:
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)  # what waits is not begun
            raise


def wait_for(device: torch.device) -> None:
    """Wait until the device has done what this run asked of it; meanwhile it is the others' turn."""
    if device.type != "cuda":
        return
    stream = torch.cuda.current_stream(device)
    if not getattr(_thread, "has_turn", False):
        stream.synchronize()
        return
    _TURN.release()
    try:
        stream.synchronize()
    finally:
        _TURN.acquire()


def _take_turns(job: Callable[[], T]) -> T:
    with _TURN:
        _thread.has_turn = True
        try:
            if not torch.cuda.is_available():
                return job()
            with torch.cuda.stream(torch.cuda.Stream()):  # type: ignore[no-untyped-call]
                return job()
        finally:
            _thread.has_turn = False
