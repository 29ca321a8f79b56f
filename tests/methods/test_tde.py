"""The total direct effect as a method: its settings, and what a run predicts by."""

import math
from pathlib import Path

import pytest
import torch
from tests.methods.small import small_run
from tests.training.conftest import make_tiny_dataset
from torch.nn.functional import cross_entropy

from proco.augment import Weak
from proco.errors import ConfigError
from proco.methods.method import Targets, Task
from proco.methods.proco import ProCo
from proco.methods.tde import Tde
from proco.models.heads import CausalClassifier
from proco.models.network import Network, NetworkConfig, Outputs
from proco.models.normalise import Normalise
from proco.training.recipes import load_recipe
from proco.training.run_folder import RunFolder
from proco.training.setup import Setup
from proco.training.trainer import Trainer

TASK = Task(torch.tensor([40, 10, 3]), num_features=8, hidden=8, dim=6)


def test_it_learns_by_cross_entropy() -> None:
    labels, logits = torch.tensor([0, 0, 1, 2]), torch.randn(4, 3)
    (stage,) = Tde().stages(TASK, 5)
    view = Outputs(torch.zeros(4, 8), logits, None)
    value = stage.terms["tde"].term([view], Targets.of(labels), CausalClassifier(8, 3))
    torch.testing.assert_close(value, cross_entropy(logits, labels))


def test_settings_reach_the_classifier() -> None:
    settings = {"heads": 4, "scale": 10.0, "alpha": 2.0, "momentum": 0.5, "offset": 0.25}
    alone = Tde(**settings)
    for method in (alone, ProCo(classification=alone)):
        classifier = method.classifier(8, 3)
        assert isinstance(classifier, CausalClassifier)
        assert {name: getattr(classifier, name) for name in settings} == settings


def test_defaults_are_the_published_ones() -> None:
    method = load_recipe("cifar100_lt/own/tde_100").method
    assert method == Tde(views=(Weak(),))
    assert isinstance(method, Tde)
    assert (method.heads, method.scale, method.alpha) == (2, 16.0, 1.5)
    assert (method.momentum, method.offset) == (0.9, 1 / 32)


@pytest.mark.parametrize(
    "settings",
    [
        {"heads": 0},
        {"scale": 0.0},
        {"alpha": -1.0},
        {"momentum": 1.0},
        {"momentum": -0.1},
        {"offset": math.nan},
    ],
    ids=str,
)
def test_numbers_out_of_range_are_refused(settings: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match=rf"method\.{next(iter(settings))}"):
        Tde(**settings)  # type: ignore[arg-type]


def test_features_that_cannot_be_cut_are_refused_when_the_network_is_made() -> None:
    with pytest.raises(ConfigError, match=r"heads must divide the 64 features into equal parts; got 3"):
        Network(
            NetworkConfig(backbone="resnet8"),
            3,
            Normalise(torch.zeros(3), torch.ones(3)),
            classifier=Tde(heads=3).classifier,
        )


def test_a_run_keeps_the_mean_with_its_weights_and_predicts_without_it(tmp_path: Path) -> None:
    config = small_run(Tde(views=(Weak(padding=1),)), epochs=3)
    dataset = make_tiny_dataset()
    summary = Trainer(config, dataset).fit(RunFolder(tmp_path / "run"))
    network = Setup(config, dataset).network
    network.load_state_dict(RunFolder(tmp_path / "run").load_weights())
    head = network.eval().classifier
    assert isinstance(head, CausalClassifier)
    assert head.mean.abs().max() > 0
    test = dataset.splits["test"]
    with torch.no_grad():
        features = network(test.images.pixels).features
        weight = torch.cat([part / (part.norm(dim=1, keepdim=True) + 1 / 32) for part in head.weight.chunk(2, 1)], 1)
        kept = []
        for x, m in zip(features.chunk(2, dim=1), head.mean.chunk(2), strict=True):
            x, m = x / x.norm(dim=1, keepdim=True), m / m.norm()
            kept.append(x - 1.5 * (x @ m)[:, None] * m)
    predicted = (torch.cat(kept, dim=1) @ weight.T).argmax(dim=1)
    assert (predicted == test.labels).float().mean().item() * 100 == pytest.approx(summary["top1"])
