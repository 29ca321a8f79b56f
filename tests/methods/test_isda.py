"""Implicit semantic data augmentation as a method: its strength over the epochs, and where it can stand."""

import math

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from proco.errors import ConfigError
from proco.losses import IsdaLoss
from proco.methods.isda import AugmentedClassification, Isda
from proco.methods.method import Targets, Task
from proco.methods.proco import ProCo
from proco.methods.proco_plus import ProCoPlus
from proco.models.network import Network, NetworkConfig, Outputs
from proco.models.normalise import Normalise

TASK = Task(torch.tensor([40, 10, 3]), num_features=8, hidden=8, dim=6)
LABELS = torch.tensor([0, 0, 1, 2, 1, 0])


def head() -> nn.Linear:
    torch.manual_seed(0)
    return nn.Linear(8, 3)


def view(classifier: nn.Linear) -> Outputs:
    features = 3 * torch.randn(6, 8, generator=torch.Generator().manual_seed(1))
    return Outputs(features, classifier(features), None)


def term_of(method: Isda) -> AugmentedClassification:
    term = method.term(TASK)
    assert isinstance(term, AugmentedClassification)
    return term


@pytest.mark.parametrize("covariance", ["full", "diagonal"])
def test_value_is_the_loss_of_features_and_weights(covariance: str) -> None:
    classifier, term = head(), term_of(Isda(strength=2.0, covariance=covariance))  # type: ignore[arg-type]
    outputs = view(classifier)
    criterion = IsdaLoss(3, 8, strength=2.0, covariance=covariance)  # type: ignore[arg-type]
    for done in (0.0, 0.5):
        term.start_epoch(done)
        criterion.grow(done)
        expected = criterion(outputs.logits, LABELS, outputs.features, classifier.weight)
        assert torch.equal(term([outputs], Targets.of(LABELS), classifier), expected)
    assert expected > cross_entropy(outputs.logits, LABELS)


def test_strength_grows_with_the_epochs_and_is_written_in_place() -> None:
    term = term_of(Isda(strength=0.5))
    scale = term.criterion.current_strength
    for epoch in range(4):
        term.start_epoch(epoch / 4)
        assert scale.item() == pytest.approx(0.5 * epoch / 4)
    assert term.criterion.current_strength is scale


def test_the_first_epoch_is_cross_entropy_but_counts() -> None:
    classifier, term = head(), term_of(Isda())
    term.start_epoch(0.0)
    outputs = view(classifier)
    value = term([outputs], Targets.of(LABELS), classifier)
    torch.testing.assert_close(value, cross_entropy(outputs.logits, LABELS))
    assert term.criterion.covariances.counts.tolist() == [3, 2, 1]


def test_gradients_reach_the_classifier_by_its_weights_too() -> None:
    classifier, term = head(), term_of(Isda())
    term.start_epoch(0.9)
    outputs = view(classifier)._replace(logits=torch.zeros(6, 3))
    term([outputs], Targets.of(LABELS), classifier).backward()
    assert classifier.weight.grad is not None
    assert classifier.weight.grad.abs().max() > 0


def test_it_stands_beside_a_contrast_but_not_under_pasted_boxes() -> None:
    (stage,) = ProCo(classification=Isda()).stages(TASK, 4)
    assert isinstance(stage.terms["isda"].term, AugmentedClassification)
    with pytest.raises(ConfigError, match="isda cannot stand where an image shows two classes"):
        ProCoPlus(classification=Isda()).stages(TASK, 4)


def test_other_classifiers_than_a_linear_one_are_refused() -> None:
    with pytest.raises(ConfigError, match="the method has a classifier of its own"):
        Network(
            NetworkConfig(backbone="resnet8", classifier="cosine"),
            3,
            Normalise(torch.zeros(3), torch.ones(3)),
            classifier=Isda().classifier,
        )


@pytest.mark.parametrize("value", [-0.1, math.inf, math.nan])
def test_a_strength_that_is_none_is_refused(value: float) -> None:
    with pytest.raises(ConfigError, match=r"method\.strength must be finite and not negative"):
        Isda(strength=value)


def test_covariances_that_do_not_fit_are_refused() -> None:
    large = TASK._replace(class_counts=torch.ones(8142), num_features=2048)
    with pytest.raises(ConfigError, match=r"set method\.covariance=diagonal"):
        Isda().term(large)
    with torch.device("meta"):
        Isda(covariance="diagonal").term(large)
