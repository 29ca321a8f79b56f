"""What a terminal and a log show of a run, and of the one that teaches it."""

import threading
from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from proco.cli import progress
from proco.cli.progress import ProgressBar, ProgressLines, _duration, progress_for


def record(epoch: int) -> dict[str, Any]:
    return {"epoch": epoch, "loss": 1.5, "accuracy": 40.0, "test": {"top1": 30.0 + epoch}}


def show(listener: ProgressBar | ProgressLines) -> None:
    """Tell it of a teacher and of the run that it teaches, two epochs of two steps each."""
    with listener:
        for name in ("teacher", ""):
            listener.on_start(0, 2, name)
            for epoch in range(2):
                for step in (1, 2):
                    listener.on_step(epoch, step, 2)
                listener.on_epoch(record(epoch))


def test_bar_begins_again_for_the_run_that_is_taught() -> None:
    console = Console(force_terminal=True, file=StringIO(), width=100)
    bar = progress_for(console, threading.Event())
    assert isinstance(bar, ProgressBar)
    shown = []
    refresh = bar.progress.refresh

    def look() -> None:
        task = bar.progress.tasks[0]
        shown.append((task.description, task.fields["epoch"], task.fields["measurements"], task.completed, task.total))
        refresh()

    bar.progress.refresh = look  # type: ignore[method-assign]
    show(bar)
    assert ("teacher, ", "0/2", "setting up", 0, 2.0) in shown
    assert ("", "0/2", "setting up", 0, 2.0) in shown  # not the teacher's measurements
    task = bar.progress.tasks[0]
    assert (task.completed, task.fields["measurements"]) == (2, "loss 1.500  train 40.0 %  test 31.0 %")


def test_lines_say_whose_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    lines = progress_for(Console(file=StringIO()), threading.Event())
    assert isinstance(lines, ProgressLines)
    show(lines)
    starts = [line.partition("  ")[0] for line in capsys.readouterr().out.splitlines()]
    assert starts == ["teacher, epoch 1/2", "teacher, epoch 2/2", "epoch 1/2", "epoch 2/2"]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time in seconds, which stands still until a test moves it."""
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def test_time_left_of_a_resumed_run_is_by_the_epochs_of_this_one(
    clock: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    lines = ProgressLines(threading.Event())
    lines.on_start(6, 10)
    clock[0] += 120  # two epochs in two minutes: two are left
    lines.on_epoch(record(7))
    assert capsys.readouterr().out.rstrip().endswith("2:00 left")


def test_time_left_is_at_the_pace_of_the_last_epochs(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    """Some stretches of a run are slower: those of steps uphill take twice the time."""
    lines = ProgressLines(threading.Event())
    lines.on_start(0, 30)
    for epoch in range(20):
        clock[0] += 10 if epoch < 12 else 20
        lines.on_epoch(record(epoch))
    assert capsys.readouterr().out.rstrip().endswith("3:20 left")


def test_long_epochs_speak_once_a_minute(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    lines = ProgressLines(threading.Event())
    lines.on_start(0, 3)
    for step in range(1, 121):
        clock[0] += 1
        lines.on_step(0, step, 500)
    assert capsys.readouterr().out.splitlines() == ["epoch 1/3  step 60/500", "epoch 1/3  step 120/500"]


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_run_ends_at_its_next_step_once_it_is_to_stop(is_terminal: bool) -> None:
    stop = threading.Event()
    listener = progress_for(Console(force_terminal=is_terminal, file=StringIO(), width=100), stop)
    listener.on_start(0, 3)
    listener.on_step(0, 1, 2)
    stop.set()
    with pytest.raises(KeyboardInterrupt):
        listener.on_step(0, 2, 2)


def test_bar_of_a_resumed_run_begins_where_it_was() -> None:
    bar = ProgressBar(threading.Event(), Console(force_terminal=True, file=StringIO(), width=100))
    with bar:
        bar.on_start(4, 8)
        assert bar.progress.tasks[0].completed == 4
        bar.on_step(5, 1, 4)
        assert bar.progress.tasks[0].completed == 5.25


@pytest.mark.parametrize(("seconds", "text"), [(0.6, "0:01"), (59.7, "1:00"), (3599.4, "59:59"), (7325, "2:02:05")])
def test_durations_are_rounded(seconds: float, text: str) -> None:
    assert _duration(seconds) == text
