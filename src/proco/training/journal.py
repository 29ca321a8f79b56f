"""What is told of a run while it goes: to metrics.jsonl, to TensorBoard, and to whoever listens."""

from types import TracebackType
from typing import Any, Protocol, Self

from proco.distributed import is_main_process
from proco.training.run_folder import RunFolder


class Listener(Protocol):
    """Who is told how a run goes; the command line draws a progress bar from it."""

    def on_start(self, first_epoch: int, epochs: int, name: str = "") -> None:
        """Hear that training begins, or goes on, at this epoch of so many; name: of a run that is part of another."""

    def on_step(self, epoch: int, step: int, steps: int) -> None:
        """Hear that a step of an epoch was started."""

    def on_epoch(self, record: dict[str, Any]) -> None:
        """Hear that an epoch ended, with this line for metrics.jsonl."""


class Silent:
    """A listener that says nothing."""

    def on_start(self, first_epoch: int, epochs: int, name: str = "") -> None:
        """Say nothing."""

    def on_step(self, epoch: int, step: int, steps: int) -> None:
        """Say nothing."""

    def on_epoch(self, record: dict[str, Any]) -> None:
        """Say nothing."""


class Journal:
    """Records of the epochs from first_epoch on; what an interrupted run wrote of them is dropped.

    Only the main process writes.
    """

    def __init__(self, folder: RunFolder, listener: Listener, first_epoch: int) -> None:
        self.folder, self.listener = folder, listener
        self.events: Any = None
        if is_main_process():
            from torch.utils.tensorboard.writer import SummaryWriter

            folder.forget_records_from(first_epoch)
            self.events = SummaryWriter(str(folder.path), purge_step=first_epoch)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.events is not None:
            self.events.close()

    def record(self, record: dict[str, Any]) -> None:
        """Write down the measurements of an epoch."""
        if self.events is not None:
            self.folder.record(record)
            for tag, value in _flat(record).items():
                if tag != "epoch" and value is not None:
                    self.events.add_scalar(tag, value, record["epoch"])


def _flat(record: dict[str, Any]) -> dict[str, float | None]:
    """Turn {"test": {"top1": 50.0}} into {"test/top1": 50.0}."""
    flat: dict[str, float | None] = {}
    for name, value in record.items():
        flat |= {f"{name}/{key}": item for key, item in value.items()} if isinstance(value, dict) else {name: value}
    return flat
