"""The class-balanced focal loss against its formula written out question by question, and its limits."""

import math

import pytest
import torch
from torch.nn.functional import binary_cross_entropy_with_logits, one_hot

from proco.losses import ClassBalancedFocalLoss

COUNTS = [70, 20, 1]


def batch(size: int = 9) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return 2 * torch.randn(size, 3, generator=generator, dtype=torch.float64), torch.arange(size) % 3


def slow_loss(logits: torch.Tensor, labels: torch.Tensor, beta: float, gamma: float) -> float:
    """Sample by sample and class by class in plain Python."""
    raw = [(1 - beta) / (1 - beta**count) for count in COUNTS]
    weights = [3 * weight / sum(raw) for weight in raw]
    total = 0.0
    for row, label in zip(logits.tolist(), labels.tolist(), strict=True):
        for j, score in enumerate(row):
            yes = 1 / (1 + math.exp(-score))
            right = yes if j == label else 1 - yes
            total -= weights[label] * (1 - right) ** gamma * math.log(right)
    return total / len(labels)


@pytest.mark.parametrize("beta", [0.0, 0.9, 0.9999])
@pytest.mark.parametrize("gamma", [0.0, 0.5, 1.0, 2.0])
def test_value_is_the_formula(beta: float, gamma: float) -> None:
    logits, labels = batch()
    found = ClassBalancedFocalLoss(COUNTS, beta=beta, gamma=gamma)(logits, labels)
    # The weights are held in float32.
    assert found.item() == pytest.approx(slow_loss(logits, labels, beta, gamma), rel=1e-6)


def test_stable_form_of_the_original_code() -> None:
    """Its modulator is exp(-gamma t s - gamma log(1 + exp(-s))), with t 1 at the label and 0 elsewhere."""
    logits, labels = batch()
    target = one_hot(labels, 3).double()
    modulator = torch.exp(-2 * target * logits - 2 * torch.log1p(torch.exp(-logits)))
    expected = (modulator * binary_cross_entropy_with_logits(logits, target, reduction="none")).sum() / len(labels)
    found = ClassBalancedFocalLoss(COUNTS, beta=0.0, gamma=2.0)(logits, labels)
    torch.testing.assert_close(found, expected)


def test_without_balance_and_focus_it_is_binary_cross_entropy() -> None:
    logits, labels = batch()
    found = ClassBalancedFocalLoss(COUNTS, beta=0.0, gamma=0.0)(logits, labels)
    target = one_hot(labels, 3).double()
    torch.testing.assert_close(found, 3 * binary_cross_entropy_with_logits(logits, target))


def test_all_answers_of_an_image_weigh_by_its_label() -> None:
    logits, labels = batch()
    each = ClassBalancedFocalLoss(COUNTS, reduction="none")(logits, labels)
    plain = ClassBalancedFocalLoss([5, 5, 5], reduction="none")(logits, labels)
    torch.testing.assert_close(
        each / plain, ClassBalancedFocalLoss(COUNTS).class_weights.double()[labels], rtol=1e-6, atol=0
    )
    # With batches of the rare class alone the mean is not divided by its weight.
    rare = labels == 2
    mean = ClassBalancedFocalLoss(COUNTS)(logits[rare], labels[rare])
    torch.testing.assert_close(mean, each[rare].mean())


@pytest.mark.parametrize("gamma", [0.5, 1.0])
def test_gradient(gamma: float) -> None:
    logits, labels = batch()
    criterion = ClassBalancedFocalLoss(COUNTS, gamma=gamma)
    assert torch.autograd.gradcheck(lambda s: criterion(s, labels), (logits.requires_grad_(),))


@pytest.mark.parametrize("gamma", [0.0, 0.5, 1.0, 2.0])
@pytest.mark.parametrize("height", [90.0, 1e4, 1e30])
def test_certain_answers_right_and_wrong_stay_finite(gamma: float, height: float) -> None:
    logits = torch.tensor([[height, -height], [-height, height]], requires_grad=True)
    criterion = ClassBalancedFocalLoss([5, 5], beta=0.0, gamma=gamma, reduction="none")
    right, wrong = criterion(logits, torch.tensor([0, 0]))
    assert right.item() == pytest.approx(0, abs=1e-30)
    assert wrong.item() == pytest.approx(2 * height)
    (gradient,) = torch.autograd.grad(right + wrong, logits)
    assert gradient.isfinite().all()
    torch.testing.assert_close(gradient[1], torch.tensor([-1.0, 1.0]))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision(dtype: torch.dtype) -> None:
    logits, labels = batch()
    criterion = ClassBalancedFocalLoss(COUNTS).to(dtype)
    assert criterion.class_weights.dtype == torch.float32
    found = criterion(logits.to(dtype), labels)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, ClassBalancedFocalLoss(COUNTS)(logits.to(dtype).float(), labels))


def test_order_of_the_classes_does_not_matter() -> None:
    logits, labels = batch()
    order = torch.tensor([2, 0, 1])
    found = ClassBalancedFocalLoss([COUNTS[j] for j in order])(logits[:, order], order.argsort()[labels])
    torch.testing.assert_close(found, ClassBalancedFocalLoss(COUNTS)(logits, labels))


def test_reductions_and_the_empty_batch() -> None:
    logits, labels = batch()
    logits.requires_grad_()
    each = ClassBalancedFocalLoss(COUNTS, reduction="none")(logits, labels)
    assert each.shape == (9,)
    torch.testing.assert_close(ClassBalancedFocalLoss(COUNTS, reduction="sum")(logits, labels), each.sum())
    torch.testing.assert_close(ClassBalancedFocalLoss(COUNTS)(logits, labels), each.mean())
    empty = ClassBalancedFocalLoss(COUNTS)(logits[:0], labels[:0])
    empty.backward()
    assert empty == 0


def test_state_and_compile() -> None:
    criterion = ClassBalancedFocalLoss(COUNTS)
    other = ClassBalancedFocalLoss([1, 1, 1])
    other.load_state_dict(criterion.state_dict())
    logits, labels = batch()
    assert other(logits, labels) == criterion(logits, labels)
    compiled = torch.compile(criterion, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(logits, labels), criterion(logits, labels))


@pytest.mark.parametrize("label", [-1, -100, 3])
def test_compiled_code_refuses_labels_out_of_range(label: int) -> None:
    compiled = torch.compile(ClassBalancedFocalLoss(COUNTS), fullgraph=True, backend="aot_eager")
    with pytest.raises((IndexError, RuntimeError), match=r"out of (range|bounds)"):
        compiled(torch.zeros(2, 3), torch.tensor([0, label]))


def test_wrong_input_is_explained() -> None:
    with pytest.raises(ValueError, match=r"beta must be at least 0 and below 1; got 1"):
        ClassBalancedFocalLoss(COUNTS, beta=1.0)
    with pytest.raises(ValueError, match=r"gamma must be finite and not negative; got -0\.5"):
        ClassBalancedFocalLoss(COUNTS, gamma=-0.5)
    with pytest.raises(ValueError, match="unknown reduction 'avg'"):
        ClassBalancedFocalLoss(COUNTS, reduction="avg")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"logits must have shape \(N, 3\); got \(2, 4\)"):
        ClassBalancedFocalLoss(COUNTS)(torch.zeros(2, 4), torch.tensor([0, 1]))
    with pytest.raises(ValueError, match=r"lie in \[0, 2\]; got 3"):
        ClassBalancedFocalLoss(COUNTS)(torch.zeros(1, 3), torch.tensor([3]))
