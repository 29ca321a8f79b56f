"""Two ranks that train together against one process: the same batches, statistics, losses and weights."""

from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import torch
from tests.distributed.ranks import run_on_two_ranks
from tests.methods.small import VIEWS, every_method, short
from tests.training.conftest import make_tiny_dataset

from proco.augment import Paste
from proco.methods.bcl import Bcl
from proco.methods.method import Method
from proco.methods.proco import ProCo
from proco.methods.proco_plus import ProCoPlus
from proco.methods.supcon import SupCon
from proco.models.network import NetworkConfig
from proco.optim import OptimConfig
from proco.training.run_folder import RunFolder
from proco.training.settings import EngineConfig, TeacherConfig, TrainConfig
from proco.training.trainer import Trainer

METHODS: dict[str, Method] = {
    **{name: short(method) for name, method in every_method().items() if method.is_equal_on_ranks},
    "proco": ProCo(views=VIEWS),
    "bcl": Bcl(views=VIEWS),
    "supcon": SupCon(views=VIEWS),
    "proco_plus": ProCoPlus(views=VIEWS, paste=Paste(probability=0.5)),
    "experts": ProCo(views=VIEWS, past_epochs=2, leave_one_out=True),
    "taught": ProCo(views=VIEWS),
}
TEACHER = TeacherConfig(run={"network": {"options": {"experts": 2}}, "epochs": 1})


def train(name: str) -> dict[str, Any]:
    """Train two epochs in float64, so that what differs is a mistake and not rounding grown large."""
    config = TrainConfig(
        method=METHODS[name],
        network=NetworkConfig(
            backbone="resnet8", options={"experts": 2} if name == "experts" else {}, hidden=16, dim=16
        ),
        optim=OptimConfig(lr=0.1, warmup=0.0, milestones=(), sharpness=0.05 if name == "proco_plus" else 0.0),
        engine=EngineConfig(device="cpu", precision="float64"),
        batch_size=16,
        epochs=2,
        ema=0.9,
        teacher=TEACHER if name == "taught" else None,
    )
    trainer = Trainer(config, make_tiny_dataset())
    assert trainer.setup.average is not None
    with TemporaryDirectory() as path:
        folder = RunFolder(Path(path) / "run")
        trainer.fit(folder)
        records = folder.records() if folder.is_finished else []
    return {
        "network": dict(trainer.setup.network.state_dict()),
        "average": dict(trainer.setup.average.state_dict()),
        "terms": dict(trainer.setup.terms.state_dict()),
        "losses": [record["losses"] for record in records],
        "test": [record["test"]["top1"] for record in records],
    }


def train_as(rank: int, name: str) -> dict[str, Any]:
    return train(name)


@pytest.mark.parametrize("name", METHODS)
def test_two_ranks_train_as_one_process(name: str) -> None:
    alone, ranks = train(name), run_on_two_ranks(partial(train_as, name=name))
    for rank in ranks:
        for part in ("network", "average", "terms"):
            torch.testing.assert_close(rank[part], alone[part], rtol=1e-6, atol=1e-6)
    together = ranks[0]
    for found, expected in zip(together["losses"], alone["losses"], strict=True):
        assert found == pytest.approx(expected, abs=1e-6)
    assert together["test"] == alone["test"]
    assert ranks[1]["losses"] == []  # only the main process writes
    for key, value in together["network"].items():
        assert torch.equal(value, ranks[1]["network"][key]), key
