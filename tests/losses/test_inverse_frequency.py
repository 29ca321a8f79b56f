"""Cross-entropy weighted by inverse frequencies against torch's own with weights from a loop."""

import math

import pytest
import torch
from torch.nn.functional import cross_entropy

from proco.losses import InverseFrequencyLoss

COUNTS = [70, 20, 10]
LABELS = torch.tensor([0, 0, 1, 2, 0, 1])


def logits_of(dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.randn(6, 3, generator=torch.Generator().manual_seed(0), dtype=dtype)


def slow_weights(power: float) -> torch.Tensor:
    raw = [(100 / count) ** power for count in COUNTS]
    return torch.tensor([3 * value / sum(raw) for value in raw], dtype=torch.float64)


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0, 1.2])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_value_is_that_of_weighted_cross_entropy(power: float, reduction: str) -> None:
    criterion = InverseFrequencyLoss(COUNTS, power=power, reduction=reduction)  # type: ignore[arg-type]
    expected = cross_entropy(logits_of(), LABELS, weight=slow_weights(power), reduction=reduction)
    torch.testing.assert_close(criterion(logits_of(), LABELS), expected)


def test_weights_sum_to_the_classes_and_no_power_overflows() -> None:
    torch.testing.assert_close(InverseFrequencyLoss(COUNTS, power=1.2).weights(torch.float64), slow_weights(1.2))
    steep = InverseFrequencyLoss([1_000_000, 1], power=50.0)
    assert steep.weights().tolist() == pytest.approx([0.0, 2.0])
    assert steep(torch.zeros(2, 2), torch.tensor([0, 0])).isfinite()  # none of the batch weighs anything


def test_equal_counts_and_power_zero_are_cross_entropy() -> None:
    plain = cross_entropy(logits_of(), LABELS)
    torch.testing.assert_close(InverseFrequencyLoss([7, 7, 7])(logits_of(), LABELS), plain)
    torch.testing.assert_close(InverseFrequencyLoss(COUNTS, power=0.0)(logits_of(), LABELS), plain)
    assert not torch.allclose(InverseFrequencyLoss(COUNTS)(logits_of(), LABELS), plain)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision(dtype: torch.dtype) -> None:
    criterion = InverseFrequencyLoss([1_000_000, 1, 5]).half()
    found = criterion(300 * logits_of(dtype), LABELS)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, criterion((300 * logits_of(dtype)).float(), LABELS))
    assert found.isfinite()


def test_the_order_of_the_classes_does_not_matter() -> None:
    order = torch.tensor([2, 0, 1])
    found = InverseFrequencyLoss([COUNTS[j] for j in order])(logits_of()[:, order], order.argsort()[LABELS])
    torch.testing.assert_close(found, InverseFrequencyLoss(COUNTS)(logits_of(), LABELS))


def test_state_compile_and_the_empty_batch() -> None:
    criterion, other = InverseFrequencyLoss(COUNTS), InverseFrequencyLoss([1, 1, 1])
    other.load_state_dict(criterion.state_dict())
    logits = logits_of(torch.float32).requires_grad_()
    assert other(logits, LABELS) == criterion(logits, LABELS)
    compiled = torch.compile(criterion, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(logits, LABELS), criterion(logits, LABELS))
    empty = criterion(logits[:0], LABELS[:0])
    empty.backward()
    assert empty == 0


def test_wrong_input_is_explained() -> None:
    for power in (-1.0, math.inf, math.nan):
        with pytest.raises(ValueError, match="power must be finite and not negative"):
            InverseFrequencyLoss(COUNTS, power=power)
    with pytest.raises(ValueError, match="unknown reduction 'avg'"):
        InverseFrequencyLoss(COUNTS, reduction="avg")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"logits must have shape \(N, 3\)"):
        InverseFrequencyLoss(COUNTS)(torch.zeros(2, 4), torch.tensor([0, 1]))
    with pytest.raises(ValueError, match=r"lie in \[0, 2\]; got 3"):
        InverseFrequencyLoss(COUNTS)(torch.zeros(2, 3), torch.tensor([0, 3]))
