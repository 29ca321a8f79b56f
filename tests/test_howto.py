"""The guide to adding a method, followed: its file, its recipes, nothing else."""

import inspect
import math
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
import yaml
from tests.methods import test_common
from tests.methods.small import COUNTS, TASK
from tests.training.conftest import make_tiny_dataset

from proco.augment import Plain
from proco.config import as_settings
from proco.errors import ConfigError
from proco.methods import Method
from proco.methods.proco import ProCo
from proco.models.network import NetworkConfig
from proco.optim import OptimConfig
from proco.training.recipes import load_recipe
from proco.training.run_folder import RunFolder
from proco.training.settings import EngineConfig, TrainConfig
from proco.training.trainer import Trainer

GUIDE = (Path(__file__).parents[1] / "docs" / "howto" / "add_a_method.md").read_text()


@pytest.fixture
def kind(monkeypatch: pytest.MonkeyPatch) -> type[Method]:
    """The method of the guide, registered until the test ends."""
    monkeypatch.setattr(Method.registry, "_items", dict(Method.registry._items))
    monkeypatch.setattr(test_common, "every_method", lambda: {"root_weighted": Method.registry["root_weighted"]()})
    monkeypatch.setattr(test_common, "variants", test_common.every_method)
    code = re.search(r"```python\n(.*?)```", GUIDE, re.DOTALL)
    assert code
    module = ModuleType("proco.methods.root_weighted")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(code[1], vars(module))
    return Method.registry["root_weighted"]


def test_it_is_what_the_guide_says(kind: type[Method]) -> None:
    assert kind.card()["summary"] == "Cross-entropy in which rare classes weigh more."
    logits, labels = torch.randn(6, 5, generator=torch.Generator().manual_seed(0)), torch.tensor([0, 0, 1, 2, 3, 4])
    found = kind(power=0.5).criterion(TASK)(logits, labels)  # type: ignore[attr-defined, call-arg]
    weights = [float(COUNTS[y]) ** -0.5 for y in labels]
    losses = [-float(row.softmax(0)[y].log()) for row, y in zip(logits, labels, strict=True)]
    expected = sum(w * loss for w, loss in zip(weights, losses, strict=True)) / sum(weights)
    assert found.item() == pytest.approx(expected, rel=1e-5)
    with pytest.raises(ConfigError, match=r"method\.power must be finite and not negative; got -1"):
        kind(power=-1.0)  # type: ignore[call-arg]


def test_its_loss_is_what_the_guide_says() -> None:
    names: dict[str, Any] = {}
    exec(re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)[1], names)
    criterion = names["SizeFocalLoss"]([8, 2], gamma=2.0)
    logits = torch.tensor([[1.0, -1.0], [0.5, 0.0]])
    q = [float(row.softmax(0)[y]) for row, y in zip(logits, (0, 1), strict=True)]
    expected = [-((1 - q[0]) ** 2) * math.log(q[0]), -((1 - q[1]) ** 0.5) * math.log(q[1])]
    assert criterion(logits, torch.tensor([0, 1])).item() == pytest.approx(sum(expected) / 2, rel=1e-5)
    assert "shares" in criterion.state_dict()


def test_its_recipe_is_read_and_it_trains(kind: type[Method], tmp_path: Path) -> None:
    text = re.search(r"```yaml\n(.*?)```", GUIDE, re.DOTALL)
    assert text
    recipe = yaml.safe_load(text[1]) | {"extends": "quickstart/_base.yaml"}
    path = tmp_path / "root_weighted.yaml"
    path.write_text(yaml.safe_dump(recipe))
    config = load_recipe(str(path))
    assert as_settings(config.method)["name"] == "root_weighted"
    small = TrainConfig(
        method=replace(config.method, views=(Plain(),)),
        network=NetworkConfig(backbone="resnet8"),
        optim=OptimConfig(lr=0.1, schedule="cosine"),
        engine=EngineConfig(device="cpu"),
        epochs=10,
        batch_size=16,
    )
    assert Trainer(small, make_tiny_dataset()).fit(RunFolder(tmp_path / "run"))["top1"] > 60


CHECKS = [
    check
    for name, check in vars(test_common).items()
    if name.startswith("test_") and set(inspect.signature(check).parameters) <= {"name", "tmp_path", "absent"}
    if "recorded" not in name or torch.cuda.is_available()
]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_it_passes_what_all_methods_have_to(kind: type[Method], check: Callable[..., None], tmp_path: Path) -> None:
    given = {"name": "root_weighted", "tmp_path": tmp_path, "absent": 4}
    check(**{name: given[name] for name in inspect.signature(check).parameters})


def test_its_recipe_for_cifar_is_the_common_one(kind: type[Method], tmp_path: Path) -> None:
    text = re.findall(r"```yaml\n(.*?)```", GUIDE, re.DOTALL)[1]
    path = tmp_path / "root_weighted_100.yaml"
    path.write_text(text.replace("_base.yaml", "cifar100_lt/_base.yaml"))
    config, reference = load_recipe(str(path)), load_recipe("cifar100_lt/proco_100")
    assert (config.optim, config.network, config.data) == (reference.optim, reference.network, reference.data)
    assert config.method.views == reference.method.views[:1]


def test_it_stands_beside_a_contrast(kind: type[Method]) -> None:
    (stage,) = ProCo(classification=kind()).stages(TASK, 1)  # type: ignore[arg-type]
    assert list(stage.terms) == ["root_weighted", "proco"]


def test_classes_and_files_that_the_guide_names_are_there() -> None:
    source = Path(__file__).parents[1]
    for name in re.findall(r"`((?:tests|src)/[\w/.]+\.py)`", GUIDE):
        if "root_weighted" not in name and "size_focal" not in name:
            assert (source / name).exists(), name
