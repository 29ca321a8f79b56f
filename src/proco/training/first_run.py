"""A finished run whose training is the first stage of another, or all of it, so that this is not trained once more."""

from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor, nn

from proco.errors import ConfigError
from proco.methods.method import Method
from proco.training.checkpoint import Checkpoint, Course
from proco.training.ema import MovingAverage
from proco.training.likeness import settings_that_count, unlike
from proco.training.run_folder import RunError, RunFolder
from proco.training.settings import TrainConfig


@dataclass(frozen=True)
class FirstRun:
    """What a finished run hands over to one that begins as it did."""

    folder: RunFolder
    checkpoint: Checkpoint

    @classmethod
    def of(cls, folder: RunFolder, config: TrainConfig, data_hash: str) -> "FirstRun":
        """Read what the run in a folder has left; refuse one that is not how a run of these settings begins.

        data_hash: of what the settings' run is trained on.
        """
        begun = beginning_of(config)
        if begun is None:
            taught = "" if config.teacher is None else ", with its teacher,"
            raise ConfigError(
                f"engine.first_run: the training of {config.method.name}{taught} begins as that of no other method; "
                "leave it out."
            )
        if difference := difference_of(folder.config(), begun):
            raise RunError(
                f"the run in {folder.path} is not how this one begins, which would be {begun.method.name} with the "
                f"same settings; {difference}."
            )
        if folder.summary()["data_hash"] != data_hash:
            raise RunError(f"the run in {folder.path} was trained on other data.")
        checkpoint = folder.load_checkpoint()
        if checkpoint is None:
            raise RunError(f"the run in {folder.path} has no checkpoint any more, {folder.checkpoint_file.name}.")
        return cls(folder, checkpoint)

    def hand_over(self, network: nn.Module, average: MovingAverage | None) -> Course:
        """Give the network and the average the states that they ended with; return how far the run had come."""
        self._fill(network, "network")
        if average is not None:
            self._fill(average, "average")
        return Course.of(self.checkpoint)

    def records(self) -> list[dict[str, Any]]:
        """Return what was measured epoch by epoch, less the evaluations: they are of another rule of prediction."""
        return [
            {name: value for name, value in record.items() if name not in ("val", "test")}
            for record in self.folder.records()
        ]

    def _fill(self, module: nn.Module, name: str) -> None:
        """Give a module the state of that name; what only its own classifier has stays as it was made."""
        state: dict[str, Tensor] = self.checkpoint[name]
        try:
            unfilled, unknown = module.load_state_dict(state, strict=False)
        except RuntimeError as error:
            raise RunError(f"the checkpoint in {self.folder.path} does not fit: {error}") from error
        missing = [key for key in unfilled if "classifier." not in key]
        if missing or unknown:
            raise RunError(f"the checkpoint in {self.folder.path} does not fit: {', '.join([*missing, *unknown])}.")


def beginning_of(config: TrainConfig) -> TrainConfig | None:
    """Return the settings of the run whose training is the first stage of this one; None where there is no such."""
    method = config.method.begins_as()
    begun = None if method is None else replace(config, method=method)
    return begun if begun is None or _are_taught_alike(config, begun) else None


def _are_taught_alike(run: TrainConfig, begun: TrainConfig) -> bool:
    """Return whether two runs have the same teacher, if any, and compare the same scores with what it says.

    A teacher that is trained for a run has its method, unless teacher.run names another.
    """
    if run.teacher is None:
        return True
    is_same_teacher = run.teacher.path is not None or run.teaching_run() == begun.teaching_run()
    return is_same_teacher and all(type(one.method).predict is Method.predict for one in (run, begun))


def difference_of(run: TrainConfig, wanted: TrainConfig) -> str:
    """Return which settings a run has other than wanted, less those that nothing learnt depends on."""
    return unlike(*(settings_that_count(config, looks=False) for config in (run, wanted)))
