"""What a run that was stopped goes on from: how far it had come, and the state of all that learns or counts."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from typing import Any

from torch import nn

from proco.training.run_folder import RunError

Checkpoint = dict[str, Any]


@dataclass
class Course:
    """How far a run has come: what is counted on when it is resumed."""

    epoch: int = 0
    """The next epoch."""
    stage: int = 0
    """The stage of the last epoch, whose optimiser the checkpoint holds."""
    seconds: float = 0.0
    train_seconds: float = 0.0
    """Without set-up and evaluation."""
    images: int = 0
    """Trained on, each epoch's counted again."""

    @classmethod
    def of(cls, checkpoint: Checkpoint) -> "Course":
        """Return how far the run had come whose checkpoint it is."""
        with _must_fit():
            return cls(**{field.name: checkpoint[field.name] for field in fields(cls)})


def checkpoint_of(course: Course, modules: Mapping[str, nn.Module]) -> Checkpoint:
    """Return the course and the states of the modules, by their names."""
    return asdict(course) | {name: module.state_dict() for name, module in modules.items()}


def restore(checkpoint: Checkpoint, modules: Mapping[str, nn.Module]) -> Course:
    """Give the modules the states of a checkpoint; return how far its run had come."""
    with _must_fit():
        for name, module in modules.items():
            module.load_state_dict(checkpoint[name])
    return Course.of(checkpoint)


@contextmanager
def _must_fit() -> Iterator[None]:
    """Say so where a checkpoint is of other settings."""
    try:
        yield
    except (RuntimeError, KeyError, TypeError, AttributeError) as error:
        raise RunError(f"the checkpoint does not fit the settings of the run: {error}") from error
