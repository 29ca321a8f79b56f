"""A calibrated classifier: idle until it is drawn anew, then the formula."""

import math

import pytest
import torch
from torch.nn.functional import linear

from proco.models.heads import AlignedClassifier
from proco.training.networks import draw_anew


def test_it_is_a_linear_classifier_to_the_bit_until_drawn_anew() -> None:
    head, features = AlignedClassifier(6, 4), torch.randn(5, 6)
    assert torch.equal(head(features), linear(features, head.weight, head.bias))


def test_calibration_is_the_formula() -> None:
    head, features = AlignedClassifier(6, 4).double(), torch.randn(5, 6, dtype=torch.float64)
    with torch.no_grad():
        for parameter in head.calibration.parameters():
            parameter.normal_()
    part, logits = head.calibration, linear(features, head.weight, head.bias)
    for n, row in enumerate(head(features).tolist()):
        drawn = sum(v * f for v, f in zip(part.direction.tolist(), features[n].tolist(), strict=True))
        confidence = 1 / (1 + math.exp(-(drawn + part.offset.item())))
        for j, found in enumerate(row):
            a, b, s = part.scale[j].item(), part.shift[j].item(), logits[n, j].item()
            assert found == pytest.approx((1 + confidence * a) * s + confidence * b, rel=1e-10)


def test_as_it_begins_it_leaves_the_largest_logit_the_largest() -> None:
    head, features = AlignedClassifier(6, 4), torch.randn(50, 6)
    before = head.weight.clone()
    draw_anew(head.calibration, 0)
    assert torch.equal(head.weight, before)
    logits = linear(features, head.weight, head.bias)
    torch.testing.assert_close(head(features), (1 + torch.sigmoid(0.1 * features.sum(dim=1)))[:, None] * logits)
    assert torch.equal(head(features).argmax(dim=1), logits.argmax(dim=1))


def test_whether_it_works_is_in_its_state() -> None:
    head, other, features = AlignedClassifier(6, 4), AlignedClassifier(6, 4), torch.randn(5, 6)
    draw_anew(head.calibration, 0)
    other.load_state_dict(head.state_dict())
    assert torch.equal(other(features), head(features))


def test_all_of_the_calibration_learns_from_the_beginning() -> None:
    head = AlignedClassifier(6, 4)
    draw_anew(head.calibration, 0)
    (head(torch.rand(5, 6)) ** 2).sum().backward()
    assert all(parameter.grad.abs().max() > 0 for parameter in head.calibration.parameters())
