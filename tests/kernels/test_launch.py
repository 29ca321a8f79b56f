"""Kernels are run, or in a rehearsal compiled side by side; on a GPU a whole step is rehearsed."""

import threading

import pytest
import torch

from proco.kernels import launch as launching
from proco.kernels.launch import launch, rehearsal

IMAGES = torch.zeros(4000)


class Kernel:
    """Stands for one of Triton's: notes what is asked of it."""

    def __init__(self) -> None:
        self.run: list[tuple] = []
        self.compiled: list[tuple] = []
        self.threads: set[int] = set()

    def __getitem__(self, grid: tuple[int, ...]):  # type: ignore[no-untyped-def]
        return lambda *arguments, **options: self.run.append((grid, arguments, options))

    def warmup(self, *arguments: object, grid: tuple[int, ...], **options: object) -> "Kernel":
        self.threads.add(threading.get_ident())
        if "bad" in options:
            raise ValueError("does not compile")
        self.compiled.append((grid, arguments, options))
        return self


@pytest.fixture
def stream(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The current stream, without a GPU."""
    current = [0]
    monkeypatch.setattr(launching, "_current_stream", lambda: current[0])
    return current


def test_kernels_run_outside_of_a_rehearsal(stream: list[int]) -> None:
    kernel = Kernel()
    launch(kernel, (3,), IMAGES, 2, num_warps=8)
    assert kernel.run == [((3,), (IMAGES, 2), {"num_warps": 8})]
    assert not kernel.compiled


def test_kernels_of_a_rehearsal_are_compiled_once_each(stream: list[int]) -> None:
    kernel, images = Kernel(), IMAGES
    with rehearsal():
        for _ in range(3):
            launch(kernel, (3,), images, 1, num_warps=8)
        launch(kernel, (3,), images, 2, num_warps=8)
        launch(kernel, (3,), images.double(), 1, num_warps=8)
        launch(kernel, (3,), images, 1, num_warps=4)
    assert not kernel.run
    assert len(kernel.compiled) == 4
    assert threading.get_ident() not in kernel.threads
    launch(kernel, (3,), images, 1)
    assert len(kernel.run) == 1


def test_large_tensors_are_not_held_until_it_is_their_turn(stream: list[int]) -> None:
    kernel = Kernel()
    with rehearsal():
        launch(kernel, (3,), IMAGES, 7)
        launch(kernel, (3,), IMAGES[1:], 7)  # which is not aligned, and compiles otherwise
    given = {arguments[0].numel() for _, arguments, _ in kernel.compiled}
    assert given == {1, 3999}
    assert all(arguments[0].dtype == torch.float32 and arguments[1] == 7 for _, arguments, _ in kernel.compiled)


def test_other_streams_run_on(stream: list[int]) -> None:
    kernel = Kernel()
    with rehearsal():
        stream[0] = 1
        launch(kernel, (1,), IMAGES)
        stream[0] = 0
    assert len(kernel.run) == 1
    assert not kernel.compiled


def test_what_does_not_compile_is_said(stream: list[int]) -> None:
    with pytest.raises(ValueError, match="does not compile"), rehearsal():
        launch(Kernel(), (1,), IMAGES, bad=True)
    kernel = Kernel()
    launch(kernel, (1,), IMAGES)
    assert len(kernel.run) == 1


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_rehearsal_changes_nothing_that_is_computed_after_it() -> None:
    pytest.importorskip("triton")
    from proco.kernels.partials import total

    partials = torch.ones(5, 7, device="cuda")
    with torch.cuda.stream(torch.cuda.Stream()):
        with rehearsal():
            total(partials)
        assert torch.equal(total(partials), torch.full((7,), 5.0, device="cuda"))
