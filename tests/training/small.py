"""The settings of a run of few epochs on the tiny images, and the way to train it."""

from pathlib import Path
from typing import Any

from tests.methods.small import VIEWS, small_run

from proco.data.dataset import Dataset
from proco.methods.method import Method
from proco.methods.proco import ProCo
from proco.training.run_folder import RunFolder
from proco.training.settings import TrainConfig
from proco.training.trainer import Trainer

PROCO = ProCo(views=VIEWS)


def small_config(method: Method = PROCO, **changes: Any) -> TrainConfig:
    """Return the settings of a run of four epochs, or with changes to these."""
    return small_run(method, **({"epochs": 4} | changes))


def fit(config: TrainConfig, dataset: Dataset, path: Path) -> dict[str, Any]:
    """Train into a folder and return the summary."""
    return Trainer(config, dataset).fit(RunFolder(path))
