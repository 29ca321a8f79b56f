"""The folder of a run: settings, measurements epoch by epoch, a summary, checkpoints and TensorBoard events.

Files are written beside and moved into place, so that a run killed at any moment leaves a folder that can be read and
resumed. Nothing here unpickles.
"""

import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from proco.config import as_settings, merge, read_recipe
from proco.errors import ProCoError
from proco.training.likeness import settings_that_count, unlike
from proco.training.settings import TrainConfig
from proco.training.whole_files import is_partial, moved_into_place, write_whole

_LITTLE_ROOM = 2**24  # bytes: where less is left on the disk, that is why a checkpoint cannot be written
M = TypeVar("M", bound=nn.Module)


class RunError(ProCoError):
    """A run folder is in the way, incomplete, or the run in it has failed."""


class RunFolder:
    """Names and formats of what a run leaves behind."""

    def __init__(self, path: Path | str) -> None:
        self.path = path = Path(path)
        self.config_file = path / "config.yaml"
        self.metrics_file = path / "metrics.jsonl"
        self.summary_file = path / "summary.json"
        self.checkpoint_file = path / "checkpoints" / "last.pt"
        self.weights_file = path / "checkpoints" / "weights.safetensors"
        self.training_images_file = path / "training_images.safetensors"

    @property
    def is_finished(self) -> bool:
        """Whether the run in it came to its end."""
        return self.summary_file.exists()

    @property
    def is_begun(self) -> bool:
        """Whether there is a run in it."""
        return self.config_file.exists()

    @property
    def has_checkpoint(self) -> bool:
        """Whether there is something to go on from, its own or its teacher's."""
        return self.checkpoint_file.exists() or self.teacher.checkpoint_file.exists()

    @property
    def teacher(self) -> "RunFolder":
        """The folder of the run that teaches the one in this folder, where there is such."""
        return RunFolder(self.path / "teacher")

    @contextmanager
    def held(self) -> Iterator[None]:
        """Make the folder and hold it meanwhile; refuse one that another process, or thread, holds.

        The system lets go of it with the process, however that ends. Where it cannot hold folders, none is held.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        try:
            import fcntl

            handle = os.open(self.path, os.O_RDONLY)
        except (ImportError, OSError):  # not on Windows
            yield
            return
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(handle)
            raise RunError(f"the run in {self.path} is being trained by another process; wait for it.") from error
        except OSError:  # some network drives
            pass
        try:
            yield
        finally:
            os.close(handle)

    def require_unused(self) -> None:
        """Refuse a folder that holds something already, is none, or cannot be written to."""
        there = next(path for path in (self.path, *self.path.absolute().parents) if path.exists())
        if not there.is_dir():
            raise RunError(f"{there} is a file, and is left as it is. Choose a folder (--out).")
        if not os.access(there, os.W_OK | os.X_OK):
            raise RunError(f"nothing can be written to {there}. Choose another folder (--out).")
        if there == self.path and not all(is_partial(inside) for inside in there.iterdir()):
            way = "Continue the run in it (--resume; in Python resume=True), or choose" if self.is_begun else "Choose"
            raise RunError(f"{there} is not empty and is left as it is. {way} another folder (--out).")

    def require_no_weights(self) -> None:
        """Refuse to begin the run once more where it has come to its end already, though its checkpoint is gone."""
        if self.weights_file.exists():
            raise RunError(
                f"the run in {self.path} has weights but no {self.checkpoint_file.name} to go on from; it would begin "
                "again and write over them. Train in another folder (--out), or delete the weights first."
            )

    def begin(self, config: TrainConfig, *, again: bool = False) -> None:
        """Make the folder and save the settings; refuse one that holds something already.

        again: begin the run in it once more, as one has to that was stopped before its first checkpoint. Where and
        beside how many others it was begun first is then of no interest.
        """
        if not again:
            self.require_unused()
        import yaml

        self.path.mkdir(parents=True, exist_ok=True)
        text = yaml.safe_dump(as_settings(config), sort_keys=False, allow_unicode=True)
        write_whole(self.config_file, text.encode())

    def config(self) -> TrainConfig:
        """Read the settings of the run."""
        if not self.is_begun:
            raise RunError(f"{self.path} is not a run folder: it has no {self.config_file.name}.")
        return merge(TrainConfig, read_recipe(TrainConfig, self.config_file))

    def require_settings(self, config: TrainConfig) -> None:
        """Refuse other settings than those of the run in the folder, where there is one."""
        if not self.is_begun:
            return
        before, now = (settings_that_count(one) for one in (self.config(), config))
        if names := unlike(before, now):
            raise RunError(f"{self.path} holds a run with other settings ({names}); choose another folder with --out.")

    def require_data(self, data_hash: str) -> None:
        """Refuse to go on with other data than the run began with."""
        if self.config().made_with.get("data", data_hash) != data_hash:
            raise RunError(
                f"the run in {self.path} began with other data: that has changed since, or was given from Python and "
                "is to be given there again. Else train anew."
            )

    def record(self, measurements: Mapping[str, Any]) -> None:
        """Append one epoch's measurements."""
        with self.metrics_file.open("a") as file:
            file.write(json.dumps(measurements) + "\n")

    def records(self) -> list[dict[str, Any]]:
        """Read the measurements of all epochs."""
        return [json.loads(line) for line in self.metrics_file.read_text().splitlines()]

    def replace_records(self, records: Iterable[Mapping[str, Any]]) -> None:
        """Write the measurements of all epochs so far."""
        write_whole(self.metrics_file, "".join(json.dumps(record) + "\n" for record in records).encode())

    def forget_records_from(self, epoch: int) -> None:
        """Drop the measurements of this epoch and later ones: they come after the checkpoint and are made again."""
        kept = []
        for line in self.metrics_file.read_text().splitlines() if self.metrics_file.exists() else []:
            try:
                record = json.loads(line)
            except json.JSONDecodeError:
                break  # a line cut short by a kill; it is the last one
            if record["epoch"] < epoch:
                kept.append(line + "\n")
        write_whole(self.metrics_file, "".join(kept).encode())

    def save_checkpoint(self, state: Mapping[str, Any]) -> None:
        """Write all that a resumed run needs, the records first: those before a checkpoint are not made again."""
        if self.metrics_file.exists():
            with self.metrics_file.open("a") as file:
                os.fsync(file.fileno())
        self.checkpoint_file.parent.mkdir(exist_ok=True)
        try:
            with moved_into_place(self.checkpoint_file) as beside:
                torch.save(dict(state), beside)
        except (OSError, RuntimeError) as error:  # the latter is what torch makes of a full disk
            reason = str(error)
            if shutil.disk_usage(self.path).free < _LITTLE_ROOM:
                reason = f"the disk has {shutil.disk_usage(self.path).free:,} bytes left"
            before = "The checkpoint before it is as it was; make" if self.checkpoint_file.exists() else "Make"
            raise RunError(
                f"cannot write {self.checkpoint_file}: {reason}. {before} room and continue with "
                f"proco train --resume {self.path}."
            ) from error

    def load_checkpoint(self) -> dict[str, Any] | None:
        """Read the last checkpoint, or None where there is none yet.

        Its tensors are on the CPU: on a GPU that a run fills, there is no room for its state a second time.
        """
        if not self.checkpoint_file.exists():
            return None
        try:
            state: dict[str, Any] = torch.load(self.checkpoint_file, map_location="cpu", weights_only=True)
        except Exception as error:  # torch raises many kinds for a damaged file
            reason = str(error).splitlines()[0].rstrip(".")
            raise RunError(f"{self.checkpoint_file} cannot be read ({reason}). Delete it to begin again.") from error
        return state

    def save_weights(self, weights: Mapping[str, Tensor]) -> None:
        """Write the network's final weights as safetensors."""
        from safetensors.torch import save

        self.weights_file.parent.mkdir(exist_ok=True)
        write_whole(self.weights_file, save({name: value.cpu().contiguous() for name, value in weights.items()}))

    def load_weights(self) -> dict[str, Tensor]:
        """Read the network's final weights."""
        from safetensors.torch import load_file

        if not self.weights_file.exists() and self.is_finished:
            raise RunError(
                f"the weights of the run in {self.path} are gone, {self.weights_file.name}. {self._remedy()}"
            )
        if not self.weights_file.exists():
            raise RunError(f"{self.path} has no weights yet; finish the run with proco train --resume {self.path}.")
        try:
            return load_file(self.weights_file)
        except Exception as error:  # safetensors raises a kind of its own
            raise RunError(f"{self.weights_file} cannot be read ({error}). {self._remedy()}") from error

    def _remedy(self) -> str:
        """Return how to get the final weights back."""
        if not self.checkpoint_file.exists():
            return "There is no checkpoint either: train anew."
        gone = [file for file in (self.weights_file, self.summary_file) if file.exists()]
        return f"Delete {' and '.join(map(str, gone))}: proco train --resume {self.path} then writes them anew."

    def fill(self, network: M, weights: Mapping[str, Tensor]) -> M:
        """Give a network the final weights, as they were read, and return it."""
        try:
            network.load_state_dict(weights)
        except RuntimeError as error:
            raise RunError(f"the weights in {self.path} do not fit its settings: {error}") from error
        return network

    def save_training_images(self, identities: Tensor) -> None:
        """Write which images were trained on (`Images.identities`)."""
        from safetensors.torch import save

        write_whole(self.training_images_file, save({"identities": identities}))

    def training_images(self) -> Tensor | None:
        """Read which images were trained on; None where that is not known."""
        from safetensors.torch import load_file

        if not self.training_images_file.exists():
            return None
        try:
            return load_file(self.training_images_file)["identities"]
        except Exception as error:  # safetensors raises a kind of its own
            raise RunError(f"{self.training_images_file} cannot be read ({error}); delete it.") from error

    def save_summary(self, summary: Mapping[str, Any]) -> None:
        """Write the summary, the last thing a run does."""
        write_whole(self.summary_file, (json.dumps(summary, indent=2) + "\n").encode())

    def summary(self) -> dict[str, Any]:
        """Read the summary."""
        if not self.is_finished:
            raise RunError(f"{self.path} has no summary yet; finish the run with proco train --resume {self.path}.")
        try:
            content: dict[str, Any] = json.loads(self.summary_file.read_text())
        except ValueError as error:
            raise RunError(f"{self.summary_file} cannot be read: {error}.") from error
        return content
