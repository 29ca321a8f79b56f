"""LDAM against its formula written out, its weighted mean, and two ranks against one."""

import math
from typing import Any

import pytest
import torch
from tests.distributed.ranks import run_on_two_ranks
from torch import Tensor
from torch.nn.functional import cross_entropy

from proco.losses import LdamLoss

COUNTS = [400, 25, 4]
WEIGHTS = torch.tensor([0.2, 0.8, 2.0])


def batch(size: int = 12, scale: float = 30.0) -> tuple[Tensor, Tensor]:
    """Scaled cosines; the classes come unevenly."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.tensor([0, 0, 0, 1, 0, 2]).repeat(size // 6)
    return scale * (2 * torch.rand(size, 3, generator=generator, dtype=torch.float64) - 1), labels


def slow_losses(logits: Tensor, labels: Tensor, max_margin: float, scale: float) -> list[float]:
    """The paper's margins C / n^(1/4), with C such that the largest is max_margin, sample by sample."""
    roots = [count**-0.25 for count in COUNTS]
    margins = [root * max_margin / max(roots) for root in roots]
    losses = []
    for row, label in zip(logits.tolist(), labels.tolist(), strict=True):
        shifted = [scale * (s / scale - (margins[label] if j == label else 0)) for j, s in enumerate(row)]
        largest = max(shifted)
        losses.append(largest + math.log(sum(math.exp(s - largest) for s in shifted)) - shifted[label])
    return losses


@pytest.mark.parametrize(("max_margin", "scale"), [(0.5, 30.0), (0.3, 30.0), (0.5, 4.0)])
def test_value_is_the_formula(max_margin: float, scale: float) -> None:
    logits, labels = batch(scale=scale)
    found = LdamLoss(COUNTS, max_margin=max_margin, scale=scale, reduction="none")(logits, labels)
    expected = torch.tensor(slow_losses(logits, labels, max_margin, scale), dtype=torch.float64)
    # The margins are made of counts in float32.
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-7)


def test_margins_by_hand() -> None:
    # 4^(1/4) over 400^(1/4), 25^(1/4) and 4^(1/4).
    torch.testing.assert_close(LdamLoss(COUNTS).margins(), torch.tensor([0.5 / math.sqrt(10), 0.5 / 2.5**0.5, 0.5]))
    torch.testing.assert_close(LdamLoss([16, 1], max_margin=0.8).margins(), torch.tensor([0.4, 0.8]))


def test_without_margins_it_is_cross_entropy() -> None:
    logits, labels = batch()
    torch.testing.assert_close(LdamLoss(COUNTS, max_margin=0.0)(logits, labels), cross_entropy(logits, labels))
    assert LdamLoss(COUNTS)(logits, labels) > cross_entropy(logits, labels)


def test_weighted_mean_is_divided_by_the_sum_of_the_weights() -> None:
    logits, labels = batch()
    criterion, each = LdamLoss(COUNTS), LdamLoss(COUNTS, reduction="none")
    plain = each(logits, labels)
    torch.testing.assert_close(criterion(logits, labels), plain.mean())
    for loss in (criterion, each):
        loss.class_weights.copy_(WEIGHTS)
    weights = WEIGHTS.double()[labels]
    torch.testing.assert_close(criterion(logits, labels), (weights * plain).sum() / weights.sum())
    torch.testing.assert_close(each(logits, labels), weights * plain)
    # PyTorch's own weighted cross-entropy of the same logits.
    margins = torch.zeros_like(logits).scatter_(1, labels[:, None], 30 * criterion.margins().double()[labels, None])
    expected = cross_entropy(logits - margins, labels, weight=WEIGHTS.double())
    torch.testing.assert_close(criterion(logits, labels), expected)


def test_weights_that_are_all_alike_do_not_change_the_mean() -> None:
    logits, labels = batch()
    criterion = LdamLoss(COUNTS)
    expected = criterion(logits, labels)
    criterion.class_weights.fill_(7.0)
    torch.testing.assert_close(criterion(logits, labels), expected)


def test_gradient() -> None:
    logits, labels = batch(6)
    criterion = LdamLoss(COUNTS)
    criterion.class_weights.copy_(WEIGHTS)
    assert torch.autograd.gradcheck(lambda s: criterion(s, labels), (logits.requires_grad_(),))


def test_sum_and_the_empty_batch() -> None:
    logits, labels = batch()
    logits.requires_grad_()
    each = LdamLoss(COUNTS, reduction="none")(logits, labels)
    assert each.shape == (12,)
    torch.testing.assert_close(LdamLoss(COUNTS, reduction="sum")(logits, labels), each.sum())
    empty = LdamLoss(COUNTS)(logits[:0], labels[:0])
    empty.backward()
    assert empty == 0


def test_large_logits_stay_finite() -> None:
    logits = torch.tensor([[1e4, -1e4, 0.0], [-1e30, 1e30, 0.0]], requires_grad=True)
    loss = LdamLoss(COUNTS)(logits, torch.tensor([1, 0]))
    assert loss.isfinite()
    assert torch.autograd.grad(loss, logits)[0].isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision(dtype: torch.dtype) -> None:
    logits, labels = batch()
    criterion = LdamLoss([1_000_001, 25, 4]).to(dtype)
    assert criterion.class_counts.tolist() == [1_000_001, 25, 4]
    found = criterion(logits.to(dtype), labels)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, criterion(logits.to(dtype).float(), labels))


def test_order_of_the_classes_does_not_matter() -> None:
    logits, labels = batch()
    order = torch.tensor([2, 0, 1])
    found = LdamLoss([COUNTS[j] for j in order])(logits[:, order], order.argsort()[labels])
    torch.testing.assert_close(found, LdamLoss(COUNTS)(logits, labels))


def test_state_holds_the_weights() -> None:
    criterion, other = LdamLoss(COUNTS), LdamLoss([1, 1, 1])
    criterion.class_weights.copy_(WEIGHTS)
    other.load_state_dict(criterion.state_dict())
    logits, labels = batch()
    assert other(logits, labels) == criterion(logits, labels)


def test_compiled_code_reads_the_weights_of_the_epoch() -> None:
    logits, labels = batch()
    criterion = LdamLoss(COUNTS)
    compiled = torch.compile(criterion, fullgraph=True, backend="eager")
    before = compiled(logits, labels)
    torch.testing.assert_close(before, criterion(logits, labels))
    criterion.class_weights.copy_(WEIGHTS)
    after = compiled(logits, labels)
    torch.testing.assert_close(after, criterion(logits, labels))
    assert not torch.allclose(before, after)


@pytest.mark.parametrize("label", [-1, -100, 3])
def test_compiled_code_refuses_labels_out_of_range(label: int) -> None:
    compiled = torch.compile(LdamLoss(COUNTS), fullgraph=True, backend="aot_eager")
    with pytest.raises((IndexError, RuntimeError), match=r"out of (range|bounds)"):
        compiled(torch.zeros(2, 3), torch.tensor([0, label]))


def loss_and_gradient(rank: int, world_size: int = 2) -> dict[str, Any]:
    """What a rank computes of its share of the batch, whose classes are not the other's."""
    logits, labels = batch()
    order = labels.argsort()
    logits, labels = logits[order].chunk(world_size)[rank].requires_grad_(), labels[order].chunk(world_size)[rank]
    criterion = LdamLoss(COUNTS)
    criterion.class_weights.copy_(WEIGHTS)
    loss = criterion(logits, labels)
    (gradient,) = torch.autograd.grad(loss, logits)
    return {"loss": loss.detach(), "gradient": gradient}


def test_two_ranks_are_one() -> None:
    first, second = run_on_two_ranks(loss_and_gradient)
    whole = loss_and_gradient(0, 1)
    torch.testing.assert_close((first["loss"] + second["loss"]) / 2, whole["loss"])
    # DistributedDataParallel takes the mean of the ranks' gradients.
    torch.testing.assert_close(torch.cat([first["gradient"], second["gradient"]]) / 2, whole["gradient"])


def test_wrong_input_is_explained() -> None:
    for margin in (-0.1, math.inf):
        with pytest.raises(ValueError, match=f"max_margin must be finite and not negative; got {margin:g}"):
            LdamLoss(COUNTS, max_margin=margin)
    for scale in (0.0, math.nan):
        with pytest.raises(ValueError, match=f"scale must be positive and finite; got {scale:g}"):
            LdamLoss(COUNTS, scale=scale)
    with pytest.raises(ValueError, match="unknown reduction 'avg'"):
        LdamLoss(COUNTS, reduction="avg")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"logits must have shape \(N, 3\); got \(2, 4\)"):
        LdamLoss(COUNTS)(torch.zeros(2, 4), torch.tensor([0, 1]))
    with pytest.raises(ValueError, match=r"lie in \[0, 2\]; got 3"):
        LdamLoss(COUNTS)(torch.zeros(1, 3), torch.tensor([3]))
