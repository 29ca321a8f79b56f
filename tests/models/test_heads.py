"""Heads: what comes out has the lengths and values it should."""

import math

import pytest
import torch
from torch import nn
from torch.nn.functional import batch_norm, cross_entropy, linear, normalize, relu

from proco.models.heads import CosineClassifier, Projector, StandardisedClassifier


def test_cosine_logits_are_scaled_cosines() -> None:
    head = CosineClassifier(6, 4, scale=30.0)
    features = torch.randn(5, 6)
    expected = 30 * torch.nn.functional.cosine_similarity(features[:, None], head.weight[None], dim=-1)
    torch.testing.assert_close(head(features), expected)
    torch.testing.assert_close(head(7 * features), expected)
    torch.testing.assert_close(head.weight.norm(dim=1), torch.ones(4))


@pytest.mark.parametrize("scale", [0.0, -1.0, math.nan])
def test_a_scale_is_positive(scale: float) -> None:
    with pytest.raises(ValueError, match="scale must be positive"):
        CosineClassifier(6, 4, scale=scale)


def test_standardised_logits_are_of_features_without_place_and_scale() -> None:
    head = StandardisedClassifier(6, 4)
    features = torch.randn(50, 6)
    standardised = (features - features.mean(dim=0)) / features.std(dim=0, correction=0)
    torch.testing.assert_close(head(features), linear(standardised, head.weight, head.bias), rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(head(7 * features + 3), head(features), rtol=1e-3, atol=1e-4)
    for _ in range(200):
        head(features)
    alone = head.eval()(features[:1])  # by what it has seen
    expected = linear((features[:1] - features.mean(dim=0)) / features.std(dim=0), head.weight, head.bias)
    torch.testing.assert_close(alone, expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(("kind", "learns"), [(nn.Linear, False), (StandardisedClassifier, True)])
def test_long_features_of_one_direction_are_learnt_at_a_high_rate_when_standardised(
    kind: type[nn.Linear], learns: bool
) -> None:
    """The features of a small ResNet, and SupCon's rate for a probe."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(40).repeat_interleave(10)
    features = 2.0 + torch.randn(40, 64, generator=generator)[labels] / 4
    features = features + torch.randn(features.shape, generator=generator) / 10
    torch.manual_seed(0)
    head = kind(64, 40)
    optimizer = torch.optim.SGD(head.parameters(), lr=5.0, momentum=0.9)
    for _ in range(100):
        optimizer.zero_grad()
        loss = cross_entropy(head(features), labels)
        loss.backward()
        optimizer.step()
    assert (loss < 0.01) == learns


def test_embeddings_have_unit_length() -> None:
    projector = Projector(64)
    embeddings = projector(torch.randn(8, 64))
    assert embeddings.shape == (8, 128)
    torch.testing.assert_close(embeddings.norm(dim=1), torch.ones(8))


def test_embeddings_are_normalised_in_float32_under_autocast() -> None:
    projector = Projector(64).eval()
    with torch.autocast("cpu", dtype=torch.float16):
        embeddings = projector(torch.randn(8, 64))
    assert embeddings.dtype == torch.float32
    torch.testing.assert_close(embeddings.norm(dim=1), torch.ones(8))


def test_cosine_weights_start_in_all_directions() -> None:
    torch.manual_seed(0)
    weight = CosineClassifier(64, 100).weight
    assert (weight < 0).double().mean().item() > 0.45
    assert weight.mean(dim=0).norm() < 0.2  # no direction that all classes share


def test_a_standardised_classifier_learns_what_a_linear_one_does() -> None:
    assert {name for name, _ in StandardisedClassifier(6, 4).named_parameters()} == {"weight", "bias"}


def test_projector_is_the_formula() -> None:
    torch.manual_seed(0)
    projector, features = Projector(6, hidden=5, dim=3).eval(), torch.randn(4, 6)
    first, _, _, second = projector.layers
    hidden = batch_norm(linear(features, first.weight, first.bias), torch.zeros(5), torch.ones(5))
    expected = normalize(linear(relu(hidden), second.weight, second.bias), dim=1)
    torch.testing.assert_close(projector(features), expected)
