"""Runs as a whole: one that was trained, to be evaluated; one that may have been trained already."""

from dataclasses import replace
from typing import Any

import torch

from proco.config import as_settings
from proco.data.dataset import name_some
from proco.data.decode import Progress
from proco.data.prepare import SharedData, prepare
from proco.data.source import Source
from proco.training.journal import Listener
from proco.training.run_folder import RunError, RunFolder
from proco.training.settings import TrainConfig
from proco.training.trainer import Trainer


def load_run(
    folder: RunFolder, *, data: Source | None = None, device: str = "auto", progress: Progress | None = None
) -> Trainer:
    """Return the trainer of a finished run with its weights, for evaluation.

    data: other data with the same classes. Where it has one split, all of it is the test.
    """
    config = folder.config()
    trained_on = folder.summary()
    config = replace(
        config,
        ema=None,  # the weights kept are the average's, with its statistics
        renew_statistics=False,
        network=replace(config.network, pretrained=False),
        teacher=None,
        engine=replace(config.engine, device=device),
    )
    dataset = prepare(config.data, progress) if data is None else data.read(progress)
    if data is None and dataset.hash != trained_on["data_hash"]:
        raise RunError(
            f"the data of the run in {folder.path} has changed since, so that held-out images may be others now. Name "
            "what to evaluate on with --data."
        )
    if set(dataset.splits) == {"train"}:
        dataset = replace(dataset, splits={**dataset.splits, "test": dataset.splits["train"]})
    trainer = Trainer(config, dataset)
    if list(trainer.dataset.class_names) != trained_on["class_names"]:
        known, found = name_some(trained_on["class_names"]), name_some(trainer.dataset.class_names)
        raise RunError(f"the run knows the classes {known}; the data has {found}.")
    trainer.class_counts = torch.tensor(trained_on["class_counts"])
    trainer.size = tuple(trained_on["image_size"])
    trainer.take_weights(folder)
    return trainer


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
    if folder.is_begun:
        before, now = (as_settings(replace(one, made_with={})) for one in (folder.config(), config))
        if names := ", ".join(name for name, value in before.items() if now[name] != value):
            raise RunError(
                f"{folder.path} holds a run with other settings ({names}); choose another folder with --out."
            )
        if folder.is_finished:
            return folder.summary()
    return Trainer(config, data=data, progress=progress).fit(folder, listener, resume=folder.is_begun)
