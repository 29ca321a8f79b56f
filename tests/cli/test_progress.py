"""What a terminal and a log show of a run, and of the one that teaches it."""

from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from proco.cli.progress import ProgressBar, ProgressLines, progress_for


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
    bar = progress_for(console)
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
    lines = progress_for(Console(file=StringIO()))
    assert isinstance(lines, ProgressLines)
    show(lines)
    starts = [line.partition("  ")[0] for line in capsys.readouterr().out.splitlines()]
    assert starts == ["teacher, epoch 1/2", "teacher, epoch 2/2", "epoch 1/2", "epoch 2/2"]
