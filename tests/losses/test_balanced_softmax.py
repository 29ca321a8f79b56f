"""Balanced softmax against its formula written out; what it shares with logit adjustment is tested there."""

import math

import pytest
import torch
from torch.nn.functional import cross_entropy

from proco.losses import BalancedSoftmaxLoss

COUNTS = [70, 20, 1]


def batch(size: int = 9) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(size, 3, generator=generator, dtype=torch.float64), torch.arange(size) % 3


def test_value_is_the_formula() -> None:
    logits, labels = batch()
    total = 0.0
    for row, label in zip(logits.tolist(), labels.tolist(), strict=True):
        weights = [count * math.exp(score) for count, score in zip(COUNTS, row, strict=True)]
        total -= math.log(weights[label] / sum(weights))
    assert BalancedSoftmaxLoss(COUNTS)(logits, labels).item() == pytest.approx(total / len(labels), rel=1e-12)


def test_equal_counts_do_nothing_and_frequencies_say_as_much_as_counts() -> None:
    logits, labels = batch()
    torch.testing.assert_close(BalancedSoftmaxLoss([7, 7, 7])(logits, labels), cross_entropy(logits, labels))
    found = BalancedSoftmaxLoss(torch.tensor(COUNTS) / 91)(logits, labels)
    torch.testing.assert_close(found, BalancedSoftmaxLoss(COUNTS)(logits, labels), rtol=1e-6, atol=0)


def test_reductions_and_the_empty_batch() -> None:
    logits, labels = batch()
    logits.requires_grad_()
    each = BalancedSoftmaxLoss(COUNTS, reduction="none")(logits, labels)
    assert each.shape == (9,)
    torch.testing.assert_close(BalancedSoftmaxLoss(COUNTS, reduction="sum")(logits, labels), each.sum())
    torch.testing.assert_close(BalancedSoftmaxLoss(COUNTS)(logits, labels), each.mean())
    empty = BalancedSoftmaxLoss(COUNTS)(logits[:0], labels[:0])
    empty.backward()
    assert empty == 0


def test_wrong_input_is_explained() -> None:
    with pytest.raises(ValueError, match="class_counts must be positive: class 1 has 0"):
        BalancedSoftmaxLoss([3, 0])
    with pytest.raises(ValueError, match="unknown reduction 'avg'"):
        BalancedSoftmaxLoss(COUNTS, reduction="avg")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"logits must have shape \(N, 3\); got \(2, 4\)"):
        BalancedSoftmaxLoss(COUNTS)(torch.zeros(2, 4), torch.tensor([0, 1]))
    with pytest.raises(ValueError, match=r"lie in \[0, 2\]; got 3"):
        BalancedSoftmaxLoss(COUNTS)(torch.zeros(1, 3), torch.tensor([3]))
