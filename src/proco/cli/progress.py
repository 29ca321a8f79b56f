"""How a run is shown while it goes: a bar on a terminal, plain lines in a file or a log."""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

_SECONDS_BETWEEN_LINES = 5.0
_EPOCHS_OF_PACE = 5  # that the time left is reckoned by: some stretches of a run are slower than others


class ProgressLines:
    """A line for the first and the last epoch, and for those between at most every few seconds.

    stop: ends the run at its next step once it is set. label: what each line begins with, where several runs speak.
    """

    def __init__(self, stop: threading.Event, label: str = "") -> None:
        self.stop, self.label = stop, label
        self.name = ""
        self.epochs = 0
        self.last_line = 0.0
        self.ends: deque[tuple[int, float]] = deque(maxlen=_EPOCHS_OF_PACE + 1)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave nothing to close."""

    def on_start(self, first_epoch: int, epochs: int, name: str = "") -> None:
        """Remember when and where training began."""
        self.epochs = epochs
        self.name = f"{name}, " if name else ""
        self.last_line = time.monotonic()
        self.ends.clear()
        self.ends.append((first_epoch, self.last_line))
        if first_epoch:
            typer.echo(f"{self.label}{self.name}goes on after epoch {first_epoch} of {epochs}")

    def on_step(self, epoch: int, step: int, steps: int) -> None:
        """Say something within a long epoch."""
        _heed(self.stop)
        now = time.monotonic()
        if now - self.last_line >= 12 * _SECONDS_BETWEEN_LINES:
            self.last_line = now
            typer.echo(f"{self.label}{self.name}epoch {epoch + 1}/{self.epochs}  step {step}/{steps}")

    def on_epoch(self, record: dict[str, Any]) -> None:
        """Say how the epoch went, and how long the rest will take at the pace of the last epochs."""
        now = time.monotonic()
        done = record["epoch"] + 1
        self.ends.append((done, now))
        if done in (1, self.epochs) or now - self.last_line >= _SECONDS_BETWEEN_LINES:
            self.last_line = now
            before, then = self.ends[0]
            left = (now - then) / (done - before) * (self.epochs - done)
            typer.echo(
                f"{self.label}{self.name}epoch {done}/{self.epochs}  {_measurements(record)}  {_duration(left)} left"
            )


class ProgressBar:
    """A bar with epoch, loss, accuracy and time left. stop: ends the run at its next step once it is set."""

    def __init__(self, stop: threading.Event, console: Console) -> None:
        self.stop = stop
        self.progress = Progress(
            TextColumn("{task.description}epoch {task.fields[epoch]}"),
            BarColumn(),
            TextColumn("{task.fields[measurements]}"),
            TimeRemainingColumn(),
            TextColumn("left"),
            console=console,
        )
        self.task = self.progress.add_task("", start=False, total=None, epoch="-", measurements="setting up")
        self.epochs = 0
        self.is_training = False

    def __enter__(self) -> Self:
        self.progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.progress.stop()

    def on_start(self, first_epoch: int, epochs: int, name: str = "") -> None:
        """Set the length of the bar."""
        self.epochs, self.is_training = epochs, False
        self.progress.reset(
            self.task,
            total=float(self.epochs),
            completed=first_epoch,
            description=f"{name}, " if name else "",
            epoch=f"{first_epoch}/{self.epochs}",
            measurements="setting up",
        )

    def on_step(self, epoch: int, step: int, steps: int) -> None:
        """Move the bar within an epoch."""
        _heed(self.stop)
        if not self.is_training:
            self.is_training = True
            self.progress.update(self.task, measurements="")
        self.progress.update(
            self.task, completed=epoch + min(step / max(steps, 1), 1.0), epoch=f"{epoch + 1}/{self.epochs}"
        )

    def on_epoch(self, record: dict[str, Any]) -> None:
        """Show how the epoch went."""
        self.progress.update(self.task, completed=record["epoch"] + 1, measurements=_measurements(record))


@contextmanager
def file_progress(console: Console) -> Iterator[Callable[[int, int], None]]:
    """Give a function that shows how many of how many image files have been checked."""
    if console.is_terminal:
        bar = Progress(
            TextColumn("checking images"), BarColumn(), TextColumn("{task.completed:.0f}/{task.total:.0f}"),
            console=console, transient=True,
        )  # fmt: skip
        task = bar.add_task("", total=0, visible=False)
        with bar:
            yield lambda done, total: bar.update(task, completed=done, total=total, visible=True)
        return
    last_line = time.monotonic()

    def say(done: int, total: int) -> None:
        nonlocal last_line
        if time.monotonic() - last_line >= _SECONDS_BETWEEN_LINES:
            last_line = time.monotonic()
            typer.echo(f"checking images  {done}/{total}")

    yield say


def progress_for(console: Console, stop: threading.Event) -> ProgressBar | ProgressLines:
    """Return the bar on a terminal, the lines elsewhere; either ends the run at its next step once stop is set."""
    return ProgressBar(stop, console) if console.is_terminal else ProgressLines(stop)


def _heed(stop: threading.Event) -> None:
    if stop.is_set():
        raise KeyboardInterrupt


def _measurements(record: dict[str, Any]) -> str:
    text = f"loss {record['loss']:.3f}  train {record['accuracy']:.1f} %"
    for split in ("val", "test"):
        if split in record:
            text += f"  {split} {record[split]['top1']:.1f} %"
    return text


def _duration(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
