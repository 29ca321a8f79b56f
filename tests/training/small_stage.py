"""A network, a stage and batches, small enough to write a step out."""

from collections.abc import Iterator
from dataclasses import replace

import torch

from proco.augment import Plain
from proco.data.dataset import Dataset
from proco.methods.method import Stage, Task
from proco.methods.proco import ProCo
from proco.models.network import Network, NetworkConfig
from proco.models.normalise import Normalise
from proco.training.loader import Batch, EpochLoader

CONFIG = NetworkConfig(backbone="resnet8", hidden=16, dim=16)
PLAIN_PROCO = ProCo(views=(Plain(), Plain(), Plain()), weight=0.5)


def make_network(**options: int) -> Network:
    """Return a network, the same one each time."""
    torch.manual_seed(0)
    return Network(
        replace(CONFIG, options=options),
        4,
        Normalise(torch.full((3,), 0.5), torch.full((3,), 0.25)),
        with_projector=True,
    )


def make_stage(dataset: Dataset, **changes: object) -> Stage:
    """Return the one stage of ProCo on the images as they are, or with changes to it."""
    (stage,) = PLAIN_PROCO.stages(Task(dataset.class_counts, 64, 16, 16), epochs=1)
    return Stage(**(vars(stage) | changes))  # type: ignore[arg-type]


def batches(dataset: Dataset, device: torch.device) -> Iterator[Batch]:
    """Return the batches of an epoch, of eight images each."""
    loader = EpochLoader(dataset.splits["train"], PLAIN_PROCO.views, batch_size=8, size=(8, 8), seed=0, device=device)
    return loader.batches(0)
