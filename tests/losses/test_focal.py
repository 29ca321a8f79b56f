"""The focal loss against its formula written out, and where rounding could hurt it."""

import math
from itertools import pairwise

import pytest
import torch
from torch.nn.functional import cross_entropy

from proco.losses import FocalLoss

GAMMAS = [0.0, 0.5, 1.0, 2.0]


def batch(size: int = 9, classes: int = 3) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    logits = 2 * torch.randn(size, classes, generator=generator, dtype=torch.float64)
    return logits, torch.arange(size) % classes


def slow_loss(logits: torch.Tensor, labels: torch.Tensor, gamma: float) -> float:
    """-(1 - q)^gamma log q, sample by sample in plain Python."""
    total = 0.0
    for row, label in zip(logits.tolist(), labels.tolist(), strict=True):
        q = math.exp(row[label]) / sum(map(math.exp, row))
        total -= (1 - q) ** gamma * math.log(q)
    return total / len(labels)


@pytest.mark.parametrize("gamma", GAMMAS)
def test_value_is_the_formula(gamma: float) -> None:
    logits, labels = batch()
    assert FocalLoss(gamma)(logits, labels).item() == pytest.approx(slow_loss(logits, labels, gamma), rel=1e-12)


@pytest.mark.parametrize("gamma", GAMMAS)
def test_gradient(gamma: float) -> None:
    logits, labels = batch()
    assert torch.autograd.gradcheck(lambda s: FocalLoss(gamma)(s, labels), (logits.requires_grad_(),))


def test_gamma_zero_is_cross_entropy_and_more_of_it_takes_from_what_is_easy() -> None:
    logits, labels = batch()
    torch.testing.assert_close(FocalLoss(0.0)(logits, labels), cross_entropy(logits, labels))
    each = [FocalLoss(gamma, reduction="none")(logits, labels) for gamma in GAMMAS]
    assert all((later < earlier).all() for earlier, later in pairwise(each))
    shares = each[2] / each[0]  # 1 - q
    torch.testing.assert_close(shares, 1 - logits.softmax(dim=1).gather(1, labels[:, None])[:, 0])


@pytest.mark.parametrize("gamma", GAMMAS)
@pytest.mark.parametrize("height", [20.0, 90.0, 1e4, 1e30])
def test_certain_answers_right_and_wrong_stay_finite(gamma: float, height: float) -> None:
    logits = torch.tensor([[height, 0.0], [0.0, height]], requires_grad=True)
    each = FocalLoss(gamma, reduction="none")(logits, torch.tensor([0, 0]))
    assert each[0] >= 0
    assert each[0] < 1e-8
    torch.testing.assert_close(each[1].item(), height)
    (gradient,) = torch.autograd.grad(each.sum(), logits)
    assert gradient.isfinite().all()
    torch.testing.assert_close(gradient[1], torch.tensor([-1.0, 1.0]), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_logits_are_taken_in_float32(dtype: torch.dtype) -> None:
    logits, labels = batch()
    found = FocalLoss(2.0)(logits.to(dtype), labels)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, FocalLoss(2.0)(logits.to(dtype).float(), labels))


def test_order_of_the_classes_does_not_matter() -> None:
    logits, labels = batch()
    order = torch.tensor([2, 0, 1])
    torch.testing.assert_close(FocalLoss()(logits[:, order], order.argsort()[labels]), FocalLoss()(logits, labels))


def test_one_class_has_nothing_to_tell_apart() -> None:
    assert FocalLoss()(torch.randn(4, 1), torch.zeros(4, dtype=torch.int64)) == 0


def test_reductions_and_the_empty_batch() -> None:
    logits, labels = batch()
    logits.requires_grad_()
    each = FocalLoss(reduction="none")(logits, labels)
    assert each.shape == (9,)
    torch.testing.assert_close(FocalLoss(reduction="sum")(logits, labels), each.sum())
    torch.testing.assert_close(FocalLoss()(logits, labels), each.mean())
    empty = FocalLoss()(logits[:0], labels[:0])
    empty.backward()
    assert empty == 0


def test_compile() -> None:
    logits, labels = batch()
    compiled = torch.compile(FocalLoss(2.0), fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(logits, labels), FocalLoss(2.0)(logits, labels))


def test_wrong_input_is_explained() -> None:
    for gamma in (-1.0, math.inf, math.nan):
        with pytest.raises(ValueError, match=f"gamma must be finite and not negative; got {gamma:g}"):
            FocalLoss(gamma)
    with pytest.raises(ValueError, match="unknown reduction 'avg'"):
        FocalLoss(reduction="avg")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"logits must have shape \(N, p\); got \(3,\)"):
        FocalLoss()(torch.zeros(3), torch.tensor([0]))
    with pytest.raises(ValueError, match=r"lie in \[0, 2\]; got 3"):
        FocalLoss()(torch.zeros(1, 3), torch.tensor([3]))
