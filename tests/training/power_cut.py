"""A listener that ends a run in the middle of it."""

from typing import Any

from proco.training.journal import Silent


class PowerCutError(Exception):
    """What the run sees of it."""


class PowerCut(Silent):
    """Ends a run before a given step of an epoch or, where that is None, as the record of the epoch is written."""

    def __init__(self, epoch: int, step: int | None) -> None:
        self.point = (epoch, step)

    def on_step(self, epoch: int, step: int, steps: int) -> None:
        if (epoch, step) == self.point:
            raise PowerCutError

    def on_epoch(self, record: dict[str, Any]) -> None:
        if (record["epoch"], None) == self.point:
            raise PowerCutError
