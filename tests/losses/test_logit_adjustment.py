"""Logit adjustment against its formula written out, and its limits."""

import math

import pytest
import torch
from torch.nn.functional import cross_entropy

from proco.losses import LogitAdjustedLoss

COUNTS = [70, 20, 10]


def slow_loss(logits: torch.Tensor, labels: torch.Tensor, tau: float) -> float:
    """-log(pi_y^tau e^(s_y) / sum_j pi_j^tau e^(s_j)), sample by sample in plain Python."""
    total = 0.0
    for row, label in zip(logits.tolist(), labels.tolist(), strict=True):
        weights = [(count / 100) ** tau * math.exp(score) for count, score in zip(COUNTS, row, strict=True)]
        total -= math.log(weights[label] / sum(weights))
    return total / len(labels)


@pytest.mark.parametrize("tau", [0.0, 0.5, 1.0, 2.0])
def test_value_is_the_formula(tau: float) -> None:
    logits, labels = torch.randn(9, 3, dtype=torch.float64), torch.arange(9) % 3
    found = LogitAdjustedLoss(COUNTS, tau=tau)(logits, labels)
    assert found.item() == pytest.approx(slow_loss(logits, labels, tau), rel=1e-12)


def test_tau_zero_is_cross_entropy_and_equal_counts_do_nothing() -> None:
    logits, labels = torch.randn(9, 3), torch.arange(9) % 3
    plain = cross_entropy(logits, labels)
    torch.testing.assert_close(LogitAdjustedLoss(COUNTS, tau=0.0)(logits, labels), plain)
    torch.testing.assert_close(LogitAdjustedLoss([7, 7, 7])(logits, labels), plain)
    assert not torch.allclose(LogitAdjustedLoss(COUNTS)(logits, labels), plain)


def test_reductions_and_the_empty_batch() -> None:
    logits, labels = torch.randn(6, 3, requires_grad=True), torch.arange(6) % 3
    each = LogitAdjustedLoss(COUNTS, reduction="none")(logits, labels)
    assert each.shape == (6,)
    torch.testing.assert_close(LogitAdjustedLoss(COUNTS, reduction="sum")(logits, labels), each.sum())
    torch.testing.assert_close(LogitAdjustedLoss(COUNTS)(logits, labels), each.mean())
    empty = LogitAdjustedLoss(COUNTS)(logits[:0], labels[:0])
    empty.backward()
    assert empty == 0


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_logits_are_adjusted_in_float32(dtype: torch.dtype) -> None:
    criterion = LogitAdjustedLoss([1_000_000, 1])
    logits = torch.tensor([[300.0, 290.0], [1.0, -3.0]], dtype=dtype)
    labels = torch.tensor([1, 0])
    found = criterion(logits, labels)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, criterion(logits.float(), labels))


def test_state_and_compile() -> None:
    criterion = LogitAdjustedLoss(COUNTS)
    other = LogitAdjustedLoss([1, 1, 1])
    other.load_state_dict(criterion.state_dict())
    logits, labels = torch.randn(6, 3), torch.arange(6) % 3
    assert other(logits, labels) == criterion(logits, labels)
    compiled = torch.compile(criterion, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(logits, labels), criterion(logits, labels))


@pytest.mark.parametrize("label", [-1, -100, 3])
def test_compiled_code_refuses_labels_out_of_range(label: int) -> None:
    compiled = torch.compile(LogitAdjustedLoss(COUNTS), fullgraph=True, backend="aot_eager")
    with pytest.raises((IndexError, RuntimeError), match=r"out of (range|bounds)"):
        compiled(torch.zeros(2, 3), torch.tensor([0, label]))


def test_wrong_input_is_explained() -> None:
    criterion = LogitAdjustedLoss(COUNTS)
    with pytest.raises(ValueError, match=r"logits must have shape \(N, 3\); got \(2, 4\)"):
        criterion(torch.zeros(2, 4), torch.tensor([0, 1]))
    with pytest.raises(ValueError, match=r"lie in \[0, 2\]; got 3"):
        criterion(torch.zeros(2, 3), torch.tensor([0, 3]))
    with pytest.raises(ValueError, match=r"labels must have shape \(2,\)"):
        criterion(torch.zeros(2, 3), torch.tensor([0]))
    with pytest.raises(ValueError, match=r"int64 or int32; got torch\.float32"):
        criterion(torch.zeros(2, 3), torch.zeros(2))
    with pytest.raises(ValueError, match="tau must be finite; got nan"):
        LogitAdjustedLoss([3, 2, 1], tau=float("nan"))
    with pytest.raises(ValueError, match="unknown reduction 'avg'; choose from mean, sum, none"):
        LogitAdjustedLoss(COUNTS, reduction="avg")  # type: ignore[arg-type]
