"""The classifier of rare events: where it begins, and that weight decay leaves its bias there."""

import math

import pytest
import torch
from torch import nn
from torch.nn.functional import linear

from proco.models.heads import RareEventClassifier


@pytest.mark.parametrize("num_classes", [2, 10, 1000])
def test_every_class_begins_at_its_share(num_classes: int) -> None:
    head = RareEventClassifier(6, num_classes)
    assert head.bias.shape == (num_classes,)
    torch.testing.assert_close(head(torch.zeros(1, 6)).sigmoid(), torch.full((1, num_classes), 1 / num_classes))


def test_it_is_linear_and_its_weight_begins_as_that_of_pytorch() -> None:
    torch.manual_seed(0)
    head = RareEventClassifier(6, 4)
    torch.manual_seed(0)
    plain = nn.Linear(6, 4)
    assert torch.equal(head.weight, plain.weight)
    features = torch.randn(5, 6)
    torch.testing.assert_close(head(features), linear(features, plain.weight) - math.log(3))


def test_drawn_anew_it_begins_again() -> None:
    head = RareEventClassifier(6, 4)
    before = head.weight.detach().clone()
    nn.init.zeros_(head.bias)
    head.reset_parameters()
    assert not torch.equal(head.weight, before)
    torch.testing.assert_close(head.bias.detach(), torch.full((4,), -math.log(3)))


def test_its_bias_is_named_as_not_decayed() -> None:
    head = RareEventClassifier(6, 4)
    assert [head.get_parameter(name) for name in head.undecayed] == [head.bias]


def test_one_class_has_no_odds() -> None:
    with pytest.raises(ValueError, match="num_classes must be at least 2, or there are no odds; got 1"):
        RareEventClassifier(6, 1)
