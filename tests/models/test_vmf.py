"""The von Mises-Fisher classifier against log-densities of the distributions, and its limits."""

import copy
import math

import pytest
import torch
from torch import Tensor
from torch.nn.functional import normalize

from proco.models.heads import CosineClassifier, VonMisesFisherClassifier
from proco.sphere import VonMisesFisher

FEATURES = 5 * torch.randn(7, 8, generator=torch.Generator().manual_seed(1))
CONCENTRATIONS = torch.tensor([16.0, 1.5, 40.0, 300.0])


def head(concentrations: Tensor = CONCENTRATIONS) -> VonMisesFisherClassifier:
    torch.manual_seed(0)
    made = VonMisesFisherClassifier(8, len(concentrations))
    with torch.no_grad():
        made.concentration.copy_(concentrations)
    return made


@pytest.mark.parametrize("training", [True, False])
def test_logits_are_log_densities_up_to_one_number(training: bool) -> None:
    classifier = head().train(training)
    points = normalize(FEATURES.double(), dim=1)
    expected = torch.stack(
        [
            VonMisesFisher(normalize(weight.double(), dim=0), kappa.double()).log_prob(points)
            for weight, kappa in zip(classifier.weight.detach(), CONCENTRATIONS, strict=True)
        ],
        dim=1,
    )
    difference = classifier(FEATURES).double() - expected
    torch.testing.assert_close(difference, difference[:1, :1].expand_as(difference), rtol=0, atol=1e-4)


def test_equal_concentrations_are_a_cosine_classifier_of_that_scale() -> None:
    classifier, cosine = head(torch.full((4,), 16.0)), CosineClassifier(8, 4, scale=16.0)
    with torch.no_grad():
        cosine.weight.copy_(classifier.weight)
    torch.testing.assert_close(classifier(FEATURES), cosine(FEATURES))
    with torch.no_grad():
        classifier.concentration.fill_(50.0)
    scores = classifier(FEATURES)
    torch.testing.assert_close(scores - scores[:, :1], 50 / 16 * (cosine(FEATURES) - cosine(FEATURES)[:, :1]))


def test_it_begins_with_equal_concentrations_that_are_not_decayed() -> None:
    classifier = VonMisesFisherClassifier(8, 4)
    assert classifier.concentration.tolist() == [16.0] * 4
    assert [classifier.get_parameter(name).shape for name in classifier.undecayed] == [(4,)]
    assert VonMisesFisherClassifier(8, 4, concentration=30.0).concentration.tolist() == [30.0] * 4
    with torch.no_grad():
        classifier.concentration.fill_(3.0)
    torch.manual_seed(0)
    classifier.reset_parameters()
    assert classifier.concentration.tolist() == [16.0] * 4
    assert torch.equal(classifier.weight, head().weight)


def test_concentrations_do_not_fall_below_one_and_can_rise_again() -> None:
    classifier = head(torch.tensor([0.2, -3.0, 16.0, 1.0])).eval()
    other = head(torch.tensor([1.0, 1.0, 16.0, 1.0])).eval()
    assert torch.equal(classifier(FEATURES), other(FEATURES))
    for sign, moves in ((1.0, [False, False, True, True]), (-1.0, [True, True, True, True])):
        classifier.concentration.grad = None
        (sign * classifier.distributions()[1].sum()).backward()
        gradient = classifier.concentration.grad
        assert gradient is not None
        assert (gradient != 0).tolist() == moves  # what is below 1 is not lowered further, and can rise
        assert set(gradient.tolist()) <= {0.0, sign}


def test_it_can_be_asked_twice_before_the_gradient_is_taken() -> None:
    classifier = head().train()
    (classifier(FEATURES).sum() + classifier(2 * FEATURES).sum()).backward()
    assert classifier.concentration.grad is not None


def test_gradients_are_right() -> None:
    classifier = head().double()

    def logits(features: Tensor, weight: Tensor, concentration: Tensor) -> Tensor:
        parameters = {"weight": weight, "concentration": concentration}
        return torch.func.functional_call(classifier.eval(), parameters, features)

    inputs = [FEATURES[:3].double(), classifier.weight.detach(), CONCENTRATIONS.double()]
    assert torch.autograd.gradcheck(logits, [value.clone().requires_grad_() for value in inputs])


def test_the_lengths_of_features_and_weights_do_not_matter() -> None:
    classifier = head()
    expected = classifier(FEATURES)
    torch.testing.assert_close(classifier(7 * FEATURES), expected)
    with torch.no_grad():
        classifier.weight *= 3
    torch.testing.assert_close(classifier(FEATURES), expected)


def test_many_features_keep_their_digits() -> None:
    """With 2048 features the logarithm of the normaliser alone is in the thousands."""
    torch.manual_seed(0)
    classifier = VonMisesFisherClassifier(2048, 3)
    with torch.no_grad():
        classifier.concentration.copy_(torch.tensor([15.0, 16.0, 400.0]))
    features = torch.randn(4, 2048)
    exact = copy.deepcopy(classifier).double()(features.double())
    torch.testing.assert_close(classifier(features).double(), exact, rtol=1e-5, atol=1e-5)


def test_state_order_of_classes_and_compile() -> None:
    classifier, other = head(), VonMisesFisherClassifier(8, 4)
    order = torch.tensor([2, 0, 3, 1])
    other.load_state_dict({name: value[order].clone() for name, value in classifier.state_dict().items()})
    torch.testing.assert_close(other(FEATURES), classifier(FEATURES)[:, order])
    compiled = torch.compile(classifier, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(FEATURES), classifier(FEATURES))


@pytest.mark.parametrize("value", [0.5, math.inf, math.nan])
def test_wrong_settings_are_refused(value: float) -> None:
    with pytest.raises(ValueError, match="concentration must be finite and at least 1"):
        VonMisesFisherClassifier(8, 4, concentration=value)
    with pytest.raises(ValueError, match="directions need 2 features at least; got 1"):
        VonMisesFisherClassifier(1, 4)
