"""Runs as a whole: the data one was trained on, and one that may have been trained already."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from proco.data.dataset import Dataset
from proco.data.decode import Progress
from proco.data.prepare import SharedData, prepare
from proco.errors import DataError
from proco.training.journal import Listener
from proco.training.run_folder import RunError, RunFolder
from proco.training.settings import TrainConfig
from proco.training.trainer import Trainer


def data_of(folder: RunFolder, progress: Progress | None = None) -> Dataset:
    """Read the data that the finished run in the folder was trained and evaluated on."""
    with place_of_data_explained(folder):
        dataset = prepare(folder.config().data, progress)
    if dataset.hash != folder.summary()["data_hash"]:
        raise RunError(
            f"the data of the run in {folder.path} has changed since, so that held-out images may be others now, or "
            "was given from Python. Name what to evaluate on with --data; --unseen leaves out what was trained on."
        )
    return dataset


@contextmanager
def place_of_data_explained(folder: RunFolder) -> Iterator[None]:
    """Say, where the data of a run is not to be had, where the run looks for it."""
    try:
        yield
    except DataError as error:
        raise DataError(f"{error} Where the data has moved, change its place in {folder.config_file}.") from error


def fit_or_reuse(
    config: TrainConfig,
    folder: RunFolder,
    listener: Listener,
    *,
    data: SharedData | None = None,
    progress: Progress | None = None,
    like: RunFolder | None = None,
) -> dict[str, Any]:
    """Train into the folder, going on with what is there; return the summary at once where the run is finished.

    data: where the data is taken from, by runs that share it. like: a finished run with which it is to be compared, so
    that the data must be the same.
    """
    folder.require_settings(config)
    if folder.is_begun and folder.is_finished:
        return folder.summary()
    trainer = Trainer(config, data=data, progress=progress)
    if like is not None and trainer.setup.dataset.hash != like.summary()["data_hash"]:
        raise RunError(f"the data has changed since {like.path}; train anew, with another folder for --out.")
    return trainer.fit(folder, listener, resume=folder.is_begun)
