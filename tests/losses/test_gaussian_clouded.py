"""Clouded cosines against the formula written out, with the same noise, and what the noise may and may not do."""

import math

import pytest
import torch
from torch.nn.functional import cross_entropy

from proco.losses import GaussianCloudedLoss

COUNTS = [80, 20, 5]
LABELS = torch.arange(9) % 3


def cosines(dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return 2 * torch.rand(9, 3, generator=torch.Generator().manual_seed(0), dtype=dtype) - 1


def slow_losses(cosine: torch.Tensor, noise: torch.Tensor, scale: float, margin: float, gamma: float) -> list[float]:
    """Sample by sample in plain Python; noise: what was drawn from N(0, 1)."""
    losses = []
    for row, drawn, label in zip(cosine.tolist(), noise.tolist(), LABELS.tolist(), strict=True):
        scores = []
        for j, (value, normal) in enumerate(zip(row, drawn, strict=True)):
            rarity = (math.log(80) - math.log(COUNTS[j])) / (math.log(80) - math.log(5))
            cloud = abs(min(max(normal / 3, -1.0), 1.0))
            scores.append(scale * (value - 0.5 * rarity * cloud - (margin if j == label else 0.0)))
        q = math.exp(scores[label]) / sum(math.exp(score) for score in scores)
        losses.append((1 - q) ** gamma * -math.log(q))
    return losses


@pytest.mark.parametrize(("scale", "margin", "gamma"), [(30.0, 0.0, 0.0), (20.0, 0.1, 1.0), (5.0, 0.3, 2.0)])
def test_value_is_the_formula(scale: float, margin: float, gamma: float) -> None:
    criterion = GaussianCloudedLoss(COUNTS, scale=scale, margin=margin, gamma=gamma, reduction="none")
    torch.manual_seed(3)
    noise = 4 * torch.randn(9, 3, dtype=torch.float64)  # some are clamped
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(torch, "randn_like", lambda _: noise)
        found = criterion(30 * cosines(), LABELS)
    assert found.tolist() == pytest.approx(slow_losses(cosines(), noise, scale, margin, gamma), rel=1e-10)
    quiet = criterion.eval()(30 * cosines(), LABELS)
    assert quiet.tolist() == pytest.approx(slow_losses(cosines(), torch.zeros(9, 3), scale, margin, gamma), rel=1e-10)


def test_by_hand() -> None:
    """The focal loss of log(1 + e^(20 (0.3 - 0.5 + 0.1))), of logits that were scaled by 30."""
    criterion = GaussianCloudedLoss([90, 10], scale=20.0, margin=0.1, gamma=1.0).eval()
    surprise = math.log(1 + math.exp(-2))
    expected = (1 - math.exp(-surprise)) * surprise
    logits = 30 * torch.tensor([[0.5, 0.3]])
    assert criterion(logits, torch.tensor([0])).item() == pytest.approx(expected, rel=1e-5)


def test_without_cloud_margin_and_focus_it_is_cross_entropy() -> None:
    logits = 30 * cosines()
    plain = cross_entropy(logits, LABELS)
    torch.testing.assert_close(GaussianCloudedLoss(COUNTS, noise=0.0)(logits, LABELS), plain)
    torch.testing.assert_close(GaussianCloudedLoss([7, 7, 7])(logits, LABELS), plain)  # of equal classes none is rare
    torch.testing.assert_close(GaussianCloudedLoss(COUNTS).eval()(logits, LABELS), plain)
    assert not torch.allclose(GaussianCloudedLoss(COUNTS)(logits, LABELS), plain)
    assert GaussianCloudedLoss(COUNTS, scale=20.0).eval()(logits, LABELS) == pytest.approx(
        cross_entropy(20 * cosines(), LABELS).item()
    )


def test_clouds_lower_all_but_the_largest_class_and_by_no_more_than_the_noise() -> None:
    """Gradients tell probabilities, and these tell how far logits of 0 were lowered beside the largest class's."""
    criterion = GaussianCloudedLoss(COUNTS, scale=1.0, logit_scale=1.0, noise=0.5, reduction="sum")
    logits = torch.zeros(20_000, 3, dtype=torch.float64, requires_grad=True)
    torch.manual_seed(0)
    criterion(logits, torch.zeros(len(logits), dtype=torch.int64)).backward()
    probabilities = logits.grad.clone()  # type: ignore[union-attr]
    probabilities[:, 0] += 1
    lowered = probabilities[:, 0].log()[:, None] - probabilities.log()
    assert lowered.min() > -1e-9
    assert lowered[:, 2].max().item() == pytest.approx(0.5, abs=1e-6)  # clamped at three deviations
    assert lowered[:, 2].mean().item() == pytest.approx(0.5 * math.sqrt(2 / math.pi) / 3, rel=0.02)
    assert lowered[:, 1].mean().item() == pytest.approx(0.5 * lowered[:, 2].mean().item(), rel=0.03)  # log(4)/log(16)
    assert abs(torch.corrcoef(lowered[:, 1:].T)[0, 1].item()) < 0.03  # each class has noise of its own


def test_noise_is_torchs_own_and_new_at_every_call() -> None:
    criterion, logits = GaussianCloudedLoss(COUNTS), 30 * cosines(torch.float32)
    torch.manual_seed(5)
    one, two = criterion(logits, LABELS), criterion(logits, LABELS)
    torch.manual_seed(5)
    assert criterion(logits, LABELS) == one != two
    criterion.eval()
    state = torch.get_rng_state()
    assert criterion(logits, LABELS) == criterion(logits, LABELS)
    assert torch.equal(torch.get_rng_state(), state)


def test_the_focal_factor_is_a_weight_without_a_gradient() -> None:
    logits = (30 * cosines()).requires_grad_()
    GaussianCloudedLoss(COUNTS, gamma=2.0, reduction="sum").eval()(logits, LABELS).backward()
    probabilities = logits.detach().softmax(dim=1)
    rows = torch.arange(9)
    expected = probabilities.clone()
    expected[rows, LABELS] -= 1
    expected *= ((1 - probabilities[rows, LABELS]) ** 2)[:, None]
    torch.testing.assert_close(logits.grad, expected)


def test_the_order_of_the_classes_does_not_matter() -> None:
    order = torch.tensor([2, 0, 1])  # the class that comes to each place
    found = GaussianCloudedLoss([COUNTS[j] for j in order], margin=0.1).eval()
    expected = GaussianCloudedLoss(COUNTS, margin=0.1).eval()
    torch.testing.assert_close(found.rarities(torch.float32), expected.rarities(torch.float32)[order])
    logits = 30 * cosines()
    torch.testing.assert_close(found(logits[:, order], order.argsort()[LABELS]), expected(logits, LABELS))


def test_reductions_absent_classes_and_the_empty_batch() -> None:
    logits = (30 * cosines()).requires_grad_()
    each = GaussianCloudedLoss(COUNTS, reduction="none").eval()(logits, LABELS)
    torch.testing.assert_close(GaussianCloudedLoss(COUNTS, reduction="sum").eval()(logits, LABELS), each.sum())
    torch.testing.assert_close(GaussianCloudedLoss(COUNTS).eval()(logits, LABELS), each.mean())
    assert GaussianCloudedLoss(COUNTS)(logits[:1], LABELS[:1]).isfinite()
    empty = GaussianCloudedLoss(COUNTS)(logits[:0], LABELS[:0])
    empty.backward()
    assert empty == 0


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_logits_are_clouded_in_float32(dtype: torch.dtype) -> None:
    criterion = GaussianCloudedLoss([1_000_000, 1], gamma=1.0, margin=0.1).half()
    assert criterion.class_counts.dtype == torch.float32
    logits = torch.tensor([[300.0, -290.0], [1.0, -3.0]], dtype=dtype)
    labels = torch.tensor([1, 0])
    torch.manual_seed(0)
    found = criterion(logits, labels)
    torch.manual_seed(0)
    assert found == criterion(logits.float(), labels)
    assert found.dtype == torch.float32
    assert found.isfinite()


@pytest.mark.parametrize("label", [0, 1])
def test_large_logits_stay_finite(label: int) -> None:
    logits = torch.tensor([[1e4, -1e4]], requires_grad=True)
    GaussianCloudedLoss([10, 1], gamma=0.5)(logits, torch.tensor([label])).backward()
    assert logits.grad.isfinite().all()  # type: ignore[union-attr]


def test_state_and_compile() -> None:
    criterion, other = GaussianCloudedLoss(COUNTS, gamma=1.0, margin=0.1), GaussianCloudedLoss([1, 1, 1])
    other.load_state_dict(criterion.state_dict())
    assert torch.equal(other.rarities(torch.float32), criterion.rarities(torch.float32))
    compiled = torch.compile(criterion, backend="eager", fullgraph=True)
    logits = 30 * cosines(torch.float32)
    torch.manual_seed(0)
    found = compiled(logits, LABELS)
    torch.manual_seed(0)
    torch.testing.assert_close(found, criterion(logits, LABELS))


@pytest.mark.parametrize("name", ["scale", "logit_scale", "margin", "gamma", "noise", "deviation"])
@pytest.mark.parametrize("value", [-1.0, math.inf, math.nan])
def test_numbers_out_of_range_are_refused(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"^{name} must be"):
        GaussianCloudedLoss(COUNTS, **{name: value})


def test_wrong_input_is_explained() -> None:
    criterion = GaussianCloudedLoss(COUNTS)
    with pytest.raises(ValueError, match=r"logits must have shape \(N, 3\); got \(2, 4\)"):
        criterion(torch.zeros(2, 4), torch.tensor([0, 1]))
    with pytest.raises(ValueError, match=r"lie in \[0, 2\]; got 3"):
        criterion(torch.zeros(2, 3), torch.tensor([0, 3]))
    with pytest.raises(ValueError, match="scale must be positive and finite; got 0"):
        GaussianCloudedLoss(COUNTS, scale=0.0)
    with pytest.raises(ValueError, match="unknown reduction 'avg'"):
        GaussianCloudedLoss(COUNTS, reduction="avg")  # type: ignore[arg-type]
