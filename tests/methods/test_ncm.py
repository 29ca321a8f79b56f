"""The nearest class mean as a method: a run shows it the training images before it predicts."""

from pathlib import Path

import pytest
import torch
from tests.methods.small import small_run
from tests.training.conftest import make_tiny_dataset
from torch.nn.functional import cross_entropy, normalize

from proco.augment import Weak
from proco.methods.method import Targets, Task
from proco.methods.ncm import Ncm
from proco.methods.supcon import SupCon
from proco.models.heads import NearestMeanClassifier
from proco.models.network import NetworkConfig, Outputs
from proco.training.run_folder import RunFolder
from proco.training.setup import Setup
from proco.training.trainer import Trainer

TASK = Task(torch.tensor([40, 10, 3]), num_features=8, hidden=8, dim=6)


def test_it_learns_by_cross_entropy() -> None:
    labels, logits = torch.tensor([0, 0, 1, 2]), torch.randn(4, 3)
    (stage,) = Ncm().stages(TASK, 5)
    view = Outputs(torch.zeros(4, 8), logits, None)
    value = stage.terms["ncm"].term([view], Targets.of(labels), NearestMeanClassifier(8, 3))
    torch.testing.assert_close(value, cross_entropy(logits, labels))


def test_the_distance_reaches_the_classifier_alone_and_beside_a_contrast() -> None:
    for method in (Ncm(distance="l2n"), SupCon(classification=Ncm(distance="l2n"))):
        classifier = method.classifier(8, 3)
        assert isinstance(classifier, NearestMeanClassifier)
        assert classifier.distance == "l2n"


@pytest.mark.parametrize(("ema", "options"), [(None, {}), (0.9, {}), (None, {"experts": 2, "shared_stages": 1})])
def test_a_run_predicts_by_the_means_of_its_last_features(
    tmp_path: Path, ema: float | None, options: dict[str, int]
) -> None:
    config = small_run(
        Ncm(views=(Weak(padding=1),)), network=NetworkConfig(backbone="resnet8", options=options), epochs=3, ema=ema
    )
    dataset = make_tiny_dataset()
    summary = Trainer(config, dataset).fit(RunFolder(tmp_path / "run"))
    restored = Setup(config, dataset).network
    restored.load_state_dict(RunFolder(tmp_path / "run").load_weights())
    restored.eval()
    train, test = dataset.splits["train"], dataset.splits["test"]
    with torch.no_grad():
        learnt, asked = (restored(split.images.pixels).features for split in (train, test))
    scores = torch.zeros(len(test.labels), 4)
    by_expert = [part.chunk(options.get("experts", 1), dim=1) for part in (learnt, asked)]
    for of_training, of_test in zip(*by_expert, strict=True):
        units, queries = (normalize(part - of_training.mean(dim=0), dim=1) for part in (of_training, of_test))
        for j in range(4):
            scores[:, j] -= (queries - units[train.labels == j].mean(dim=0)).square().sum(dim=1)
    accuracy = (scores.argmax(dim=1) == test.labels).float().mean().item() * 100
    assert accuracy == pytest.approx(summary["top1"])
    with torch.no_grad():
        logits = restored(test.images.pixels).logits
    torch.testing.assert_close(logits, scores / options.get("experts", 1), rtol=1e-3, atol=1e-4)
