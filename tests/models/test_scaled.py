"""A classifier whose logits are scaled: at first as a linear one, then by class."""

import torch
from torch import nn
from torch.nn.functional import linear

from proco.models.heads import ScaledClassifier


def test_it_begins_as_a_linear_classifier() -> None:
    torch.manual_seed(0)
    head = ScaledClassifier(6, 4)
    torch.manual_seed(0)
    plain = nn.Linear(6, 4)
    features = torch.randn(5, 6)
    assert torch.equal(head(features), plain(features))
    assert {name: tuple(value.shape) for name, value in head.named_parameters()} == {
        "weight": (4, 6),
        "bias": (4,),
        "scale": (4,),
    }


def test_scales_are_of_weights_and_bias() -> None:
    head, features = ScaledClassifier(6, 4), torch.randn(5, 6)
    with torch.no_grad():
        head.scale.copy_(torch.tensor([0.5, 1.0, 2.0, -1.0]))
    expected = linear(features, head.scale[:, None] * head.weight, head.scale * head.bias)
    torch.testing.assert_close(head(features), expected)


def test_what_is_drawn_anew_is_not_scaled() -> None:
    head = ScaledClassifier(6, 4)
    before = head.weight.clone()
    with torch.no_grad():
        head.scale.fill_(3.0)
    head.reset_parameters()
    assert torch.equal(head.scale, torch.ones(4))
    assert not torch.equal(head.weight, before)
