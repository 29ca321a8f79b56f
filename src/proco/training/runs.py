"""Runs as a whole: the data one was trained on, and one that may have been trained already."""

from dataclasses import replace
from typing import Any

from proco.config import as_settings
from proco.data.dataset import Dataset
from proco.data.decode import Progress
from proco.data.prepare import SharedData, prepare
from proco.training.journal import Listener
from proco.training.run_folder import RunError, RunFolder
from proco.training.settings import EngineConfig, TrainConfig
from proco.training.trainer import Trainer


def data_of(folder: RunFolder, progress: Progress | None = None) -> Dataset:
    """Read the data that the finished run in the folder was trained and evaluated on."""
    dataset = prepare(folder.config().data, progress)
    if dataset.hash != folder.summary()["data_hash"]:
        raise RunError(
            f"the data of the run in {folder.path} has changed since, so that held-out images may be others now, or "
            "was given from Python. Name what to evaluate on with --data."
        )
    return dataset


def require_same_settings(config: TrainConfig, folder: RunFolder) -> None:
    """Refuse a folder whose run, where there is one, has other settings."""
    if not folder.is_begun:
        return
    before, now = (_what_counts(one) for one in (folder.config(), config))
    if names := ", ".join(name for name, value in before.items() if now[name] != value):
        raise RunError(f"{folder.path} holds a run with other settings ({names}); choose another folder with --out.")


def _what_counts(config: TrainConfig) -> dict[str, Any]:
    """Return the settings without what is said about a run, with what it was made, and by what means."""
    counting = {name: getattr(config.engine, name) for name in (*EngineConfig.rounding, *EngineConfig.looks)}
    return as_settings(replace(config, about="", published={}, made_with={}, engine=EngineConfig(**counting)))


def fit_or_reuse(
    config: TrainConfig,
    folder: RunFolder,
    listener: Listener,
    *,
    data: SharedData | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Train into the folder, going on with what is there; return the summary at once where the run is finished.

    data: where the data is taken from, by runs that share it.
    """
    require_same_settings(config, folder)
    if folder.is_begun and folder.is_finished:
        return folder.summary()
    return Trainer(config, data=data, progress=progress).fit(folder, listener, resume=folder.is_begun)
