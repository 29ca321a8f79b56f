"""Weights of evened lengths against a loop over classes."""

import pytest
import torch
from torch import nn
from torch.nn.functional import linear

from proco.models.heads import TauNormClassifier


def head(tau: float) -> TauNormClassifier:
    torch.manual_seed(0)
    made = TauNormClassifier(6, 4, tau=tau)
    with torch.no_grad():
        made.weight *= torch.tensor([[5.0], [2.0], [1.0], [0.1]])
    return made


FEATURES = torch.randn(5, 6, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("tau", [0.0, 0.7, 1.0, 2.0])
def test_logits_in_evaluation_are_the_formula(tau: float) -> None:
    classifier = head(tau).eval()
    for found, features in zip(classifier(FEATURES), FEATURES, strict=True):
        for logit, weight in zip(found, classifier.weight, strict=True):
            length = weight.square().sum() ** 0.5
            torch.testing.assert_close(logit, (features * weight).sum() / length**tau)


def test_it_learns_as_a_linear_classifier() -> None:
    classifier = head(0.7)
    expected = linear(FEATURES, classifier.weight, classifier.bias)
    torch.testing.assert_close(classifier(FEATURES), expected)
    assert {name for name, _ in classifier.named_parameters()} == {"weight", "bias"}
    torch.manual_seed(0)
    plain = nn.Linear(6, 4)
    torch.manual_seed(0)
    assert torch.equal(TauNormClassifier(6, 4).weight, plain.weight)


def test_tau_zero_drops_the_bias_and_no_more_and_tau_one_is_a_cosine_times_the_features_length() -> None:
    unchanged, even = head(0.0).eval(), head(1.0).eval()
    torch.testing.assert_close(unchanged(FEATURES), linear(FEATURES, unchanged.weight))
    cosines = torch.cosine_similarity(FEATURES[:, None], even.weight[None], dim=-1)
    torch.testing.assert_close(even(FEATURES), cosines * FEATURES.norm(dim=1, keepdim=True))


def test_longer_weights_lose_by_a_larger_tau() -> None:
    classifier = TauNormClassifier(2, 2, tau=1.0)
    with torch.no_grad():
        classifier.weight.copy_(torch.tensor([[3.0, 0.0], [0.0, 1.0]]))
    features = torch.tensor([[1.0, 2.0]])
    classifier.tau = 0.0
    assert classifier.eval()(features).argmax() == 0
    classifier.tau = 1.0
    assert classifier(features).argmax() == 1


@pytest.mark.parametrize("tau", [0.7, 2.0, 10.0])
def test_a_class_without_weights_stays_finite(tau: float) -> None:
    classifier = head(tau).eval()
    with torch.no_grad():
        classifier.weight[1] = 0
    assert classifier(FEATURES).isfinite().all()
    assert classifier(FEATURES)[:, 1].abs().max() == 0


def test_order_of_classes_and_state() -> None:
    classifier, other = head(0.7).eval(), TauNormClassifier(6, 4, tau=0.7).eval()
    order = torch.tensor([2, 0, 3, 1])
    other.load_state_dict({name: value[order] for name, value in classifier.state_dict().items()})
    torch.testing.assert_close(other(FEATURES), classifier(FEATURES)[:, order])
    assert set(classifier.state_dict()) == {"weight", "bias"}  # as a linear classifier's, which it can be loaded from


@pytest.mark.parametrize("tau", [-0.1, float("nan"), float("inf")])
def test_a_power_that_is_none_is_refused(tau: float) -> None:
    with pytest.raises(ValueError, match="tau must be finite and not negative"):
        TauNormClassifier(6, 4, tau=tau)
