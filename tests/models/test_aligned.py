"""A calibrated classifier: idle until it has learnt, then the formula."""

import math

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, linear

from proco.losses import InverseFrequencyLoss
from proco.models.heads import AlignedClassifier


def test_it_begins_as_a_linear_classifier_to_the_bit() -> None:
    head, features = AlignedClassifier(6, 4), torch.randn(5, 6)
    assert torch.equal(head(features), linear(features, head.weight, head.bias))


def test_confidence_begins_with_the_sum_of_the_features() -> None:
    """As the authors' code has it: 0.1 for each feature."""
    head = AlignedClassifier(6, 4)
    with torch.no_grad():
        head.calibration.shift.fill_(1.0)
    features = torch.tensor([[1.0, 2.0, 3.0, 0.0, 0.0, 4.0]])
    added = head(features) - linear(features, head.weight, head.bias)
    torch.testing.assert_close(added, torch.full((1, 4), 1 / (1 + math.exp(-1.0))))


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


def test_whether_it_works_is_in_its_state() -> None:
    head, other, features = AlignedClassifier(6, 4), AlignedClassifier(6, 4), torch.randn(5, 6)
    with torch.no_grad():
        head.calibration.shift.normal_()
    other.load_state_dict(head.state_dict())
    assert torch.equal(other(features), head(features))
    assert not torch.equal(other(features), linear(features, head.weight, head.bias))


def test_all_of_the_calibration_learns_from_the_second_step_on() -> None:
    """While scales and shifts are 0, how much there is of them does not matter."""
    head, features = AlignedClassifier(6, 4), torch.rand(5, 6)
    optimizer = torch.optim.SGD(head.calibration.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        (head(features) ** 2).sum().backward()
        optimizer.step()
    assert all(parameter.grad.abs().max() > 0 for parameter in head.calibration.parameters())


def test_few_features_do_not_shut_it_off() -> None:
    """From scales of 1, twice the logits, heavy weights of rare classes drive all confidences to 0 within 20 steps."""
    torch.manual_seed(0)
    counts = torch.tensor([int(500 * 0.01 ** (j / 99)) for j in range(100)])
    labels = torch.arange(100).repeat_interleave(counts)
    features = (0.6 * torch.randn(len(labels), 64) + 0.25 * torch.randn(100, 64)[labels]).relu()
    head, criterion = AlignedClassifier(64, 100), InverseFrequencyLoss(counts, power=1.2)

    first = torch.optim.LBFGS([head.weight, head.bias], max_iter=15)

    def cross_entropy_of_all() -> Tensor:
        first.zero_grad()
        loss = cross_entropy(linear(features, head.weight, head.bias), labels) + 1e-3 * head.weight.square().sum()
        loss.backward()
        return loss

    first.step(cross_entropy_of_all)
    before = criterion(head(features), labels)
    second = torch.optim.SGD(head.calibration.parameters(), lr=0.1, momentum=0.9)
    for _ in range(40):
        batch = torch.randint(len(labels), (256,))
        second.zero_grad()
        criterion(head(features[batch]), labels[batch]).backward()
        second.step()
    confidence = torch.sigmoid(features @ head.calibration.direction + head.calibration.offset)
    assert confidence.mean() > 0.5
    assert criterion(head(features), labels) < before - 0.2
