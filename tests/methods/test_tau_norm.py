"""tau-normalisation as a method: what it learns by, and what it predicts by."""

import math
from pathlib import Path

import pytest
import torch
from tests.methods.small import small_run
from tests.training.conftest import make_tiny_dataset
from torch.nn.functional import cross_entropy, linear

from proco.augment import Weak
from proco.errors import ConfigError
from proco.methods.method import Targets, Task
from proco.methods.proco import ProCo
from proco.methods.tau_norm import TauNorm
from proco.models.heads import TauNormClassifier
from proco.models.network import Outputs
from proco.training.run_folder import RunFolder
from proco.training.trainer import Trainer

TASK = Task(torch.tensor([40, 10, 3]), num_features=8, hidden=8, dim=6)
LABELS = torch.tensor([0, 0, 1, 2])
VIEW = Outputs(torch.zeros(4, 8), torch.randn(4, 3, generator=torch.Generator().manual_seed(0)), None)


def test_it_learns_by_cross_entropy() -> None:
    (stage,) = TauNorm().stages(TASK, 5)
    value = stage.terms["tau_norm"].term([VIEW], Targets.of(LABELS), TauNormClassifier(8, 3))
    torch.testing.assert_close(value, cross_entropy(VIEW.logits, LABELS))


def test_tau_reaches_the_classifier_alone_and_beside_a_contrast() -> None:
    for method in (TauNorm(tau=0.3), ProCo(classification=TauNorm(tau=0.3))):
        classifier = method.classifier(8, 3)
        assert isinstance(classifier, TauNormClassifier)
        assert classifier.tau == 0.3


@pytest.mark.parametrize("tau", [-0.1, math.nan, math.inf])
def test_a_power_that_is_none_is_refused(tau: float) -> None:
    with pytest.raises(ConfigError, match=r"method\.tau must be finite and not negative"):
        TauNorm(tau=tau)


def test_a_run_predicts_by_weights_of_one_length(tmp_path: Path) -> None:
    config = small_run(TauNorm(tau=1.0, views=(Weak(padding=1),)), epochs=4)
    dataset = make_tiny_dataset()
    trainer = Trainer(config, dataset)
    summary = trainer.fit(RunFolder(tmp_path / "run"))
    test = dataset.splits["test"]
    with torch.no_grad():
        features = trainer.setup.network.eval()(test.images.pixels).features
    weight = trainer.setup.network.classifier.weight.detach()
    predicted = linear(features, weight / weight.norm(dim=1, keepdim=True)).argmax(dim=1)
    assert (predicted == test.labels).float().mean().item() * 100 == pytest.approx(summary["top1"])
