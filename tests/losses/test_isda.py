"""Implicit semantic data augmentation against sampling, and its covariances against those of all features together."""

import copy
import math
from functools import partial

import pytest
import torch
from tests.distributed.ranks import run_on_two_ranks
from torch import Tensor
from torch.nn.functional import cross_entropy

from proco.losses import IsdaLoss
from proco.losses.class_covariances import ClassCovariances, CovarianceKind

KINDS: list[CovarianceKind] = ["full", "diagonal"]
WEIGHT = torch.randn(3, 4, generator=torch.Generator().manual_seed(7))


def batch(size: int = 30, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Features (N, 4), correlated and each class elsewhere, with labels of three classes."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(3, (size,), generator=generator)
    labels[:3] = torch.arange(3)
    mixing = torch.randn(3, 4, 4, generator=generator)
    noise = torch.randn(size, 4, generator=generator)
    return 5 * torch.eye(3, 4)[labels] + torch.einsum("nd,nde->ne", noise, mixing[labels]), labels


def call(criterion: IsdaLoss, size: int = 30, seed: int = 0) -> Tensor:
    features, labels = batch(size, seed)
    value: Tensor = criterion(features @ WEIGHT.T, labels, features, WEIGHT)
    return value


def ready(kind: CovarianceKind = "full", strength: float = 0.5) -> IsdaLoss:
    """A criterion that has seen a batch, at its full strength, and learns no more."""
    criterion = IsdaLoss(3, 4, strength=strength, covariance=kind)
    criterion.grow(1.0)
    call(criterion)
    return criterion.eval()


def covariance_of(features: Tensor, kind: CovarianceKind) -> Tensor:
    whole = torch.cov(features.double().T, correction=0)
    return whole if kind == "full" else whole.diagonal()


@pytest.mark.parametrize("kind", KINDS)
def test_covariances_are_those_of_all_features_together(kind: CovarianceKind) -> None:
    classes = ClassCovariances(3, 4, kind)
    batches = [batch(size, seed) for seed, size in enumerate([30, 7, 50])]
    for features, labels in batches:
        classes.update(features, labels)
    features, labels = (torch.cat(parts) for parts in zip(*batches, strict=True))
    for j in range(3):
        own = features[labels == j]
        torch.testing.assert_close(classes.means[j], own.mean(0))
        torch.testing.assert_close(classes.covariances[j].double(), covariance_of(own, kind), rtol=1e-5, atol=1e-5)
    assert classes.counts.tolist() == torch.bincount(labels).tolist()


@pytest.mark.parametrize("kind", KINDS)
def test_classes_with_one_image_or_none_have_no_spread(kind: CovarianceKind) -> None:
    classes = ClassCovariances(4, 4, kind)
    features, labels = batch()
    labels = torch.where(labels == 2, 0, labels)
    labels[0] = 2  # the only one
    classes.update(features, labels)
    assert classes.counts[[2, 3]].tolist() == [1, 0]
    assert classes.covariances[[2, 3]].abs().max() == 0
    before = classes.covariances.clone()
    classes.update(features[labels == 1], labels[labels == 1])
    assert torch.equal(classes.covariances[[0, 2, 3]], before[[0, 2, 3]])


@pytest.mark.parametrize("kind", KINDS)
def test_spread_is_the_quadratic_form_of_each_pair(kind: CovarianceKind) -> None:
    criterion = ready(kind)
    stored = criterion.covariances.covariances.double()
    matrices = stored if kind == "full" else torch.diag_embed(stored)
    expected = torch.tensor(
        [[float((w - WEIGHT[y]).double() @ matrices[y] @ (w - WEIGHT[y]).double()) for w in WEIGHT] for y in range(3)]
    )
    torch.testing.assert_close(criterion.covariances.spread(WEIGHT), expected, rtol=1e-5, atol=1e-5)
    # What all weights share makes no difference, and costs few digits.
    torch.testing.assert_close(criterion.covariances.spread(WEIGHT + 50), expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_loss_bounds_the_mean_over_sampled_shifts(kind: CovarianceKind) -> None:
    """Jensen: E log sum_j exp(s_j - s_y) <= log sum_j E exp(s_j - s_y), and the latter expectations are exact."""
    criterion = ready(kind)
    stored = criterion.covariances.covariances.double()
    matrices = stored if kind == "full" else torch.diag_embed(stored)
    features, labels = (part[:6] for part in batch(seed=3))
    weight = 0.3 * WEIGHT  # short enough for the samples to find the mean of an exponential
    features = features.double()
    criterion.reduction = "none"
    losses = criterion(features @ weight.double().T, labels, features, weight.double())
    torch.manual_seed(0)
    for feature, y, loss in zip(features, labels.tolist(), losses, strict=True):
        normal = torch.distributions.MultivariateNormal(feature, 0.5 * matrices[y] + 1e-9 * torch.eye(4))
        logits = normal.sample((200_000,)) @ weight.double().T
        ratios = (logits - logits[:, y : y + 1]).exp()
        torch.testing.assert_close(loss, ratios.mean(0).sum().log(), rtol=0, atol=2e-2)
        assert loss >= ratios.sum(1).log().mean() - 1e-3


@pytest.mark.parametrize("kind", KINDS)
def test_value_is_the_formula(kind: CovarianceKind) -> None:
    criterion = ready(kind)
    features, labels = batch(seed=2)
    spread = criterion.covariances.spread(WEIGHT)
    losses = []
    for feature, y in zip(features, labels.tolist(), strict=True):
        scores = [float(feature @ WEIGHT[j]) + 0.25 * float(spread[y, j]) for j in range(3)]
        losses.append(math.log(sum(math.exp(score - scores[y]) for score in scores)))
    assert call(criterion, seed=2).item() == pytest.approx(sum(losses) / len(losses), rel=1e-4)


def test_it_begins_as_cross_entropy_and_grows() -> None:
    features, labels = batch()
    plain = cross_entropy(features @ WEIGHT.T, labels)
    values = []
    for done in (0.0, 0.5, 1.0):
        criterion = IsdaLoss(3, 4, strength=2.0)
        criterion.grow(done)
        values.append(call(criterion))
    torch.testing.assert_close(values[0], plain)
    assert values[0] < values[1] < values[2]
    torch.testing.assert_close(call(IsdaLoss(3, 4)), plain)  # as long as nothing was said
    half = IsdaLoss(3, 4, strength=1.0)
    half.grow(1.0)
    torch.testing.assert_close(call(half), values[1])


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_reach_logits_and_weights_but_not_the_covariances(kind: CovarianceKind) -> None:
    criterion = ready(kind).double()
    features, labels = batch(8, seed=4)
    features = features.double()

    def loss(logits: Tensor, weight: Tensor) -> Tensor:
        value: Tensor = criterion(logits, labels, features, weight)
        return value

    logits = (features @ WEIGHT.double().T).requires_grad_()
    assert torch.autograd.gradcheck(loss, (logits, WEIGHT.double().requires_grad_()))
    features.requires_grad_()
    criterion.train()(logits, labels, features, WEIGHT.double()).backward()
    assert features.grad is None


def test_two_views_in_turn_have_gradients() -> None:
    criterion = IsdaLoss(3, 4)
    criterion.grow(1.0)
    weight = WEIGHT.clone().requires_grad_()
    features, labels = batch()
    views = [features, features.flip(0)]
    sum(criterion(view @ weight.T, labels, view, weight) for view in views).backward()
    assert weight.grad is not None
    assert weight.grad.isfinite().all()


@pytest.mark.parametrize("value", [math.inf, math.nan])
def test_one_row_that_overflows_spoils_no_other_batch(value: float) -> None:
    features, labels = batch()
    broken, without = ClassCovariances(3, 4), ClassCovariances(3, 4)
    without.update(features[1:], labels[1:])
    features[0, 2] = value
    broken.update(features, labels)
    torch.testing.assert_close(broken.state_dict(), without.state_dict())


def test_evaluation_changes_nothing_and_state_is_saved() -> None:
    criterion = ready()
    before = copy.deepcopy(criterion.state_dict())
    value = call(criterion, seed=5)
    torch.testing.assert_close(criterion.state_dict(), before, rtol=0, atol=0)
    restored = IsdaLoss(3, 4)
    restored.load_state_dict(before)
    assert torch.equal(call(restored.eval(), seed=5), value)
    assert torch.equal(call(restored.train(), seed=6), call(criterion.train(), seed=6))


def test_the_order_of_classes_does_not_matter() -> None:
    features, labels = batch()
    order = torch.tensor([2, 0, 1])  # class j becomes order[j]
    weight = torch.empty_like(WEIGHT)
    weight[order] = WEIGHT
    criterion = IsdaLoss(3, 4)
    criterion.grow(1.0)
    found = criterion(features @ weight.T, order[labels], features, weight)
    expected = IsdaLoss(3, 4)
    expected.grow(1.0)
    torch.testing.assert_close(found, call(expected))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_left_for_float32(dtype: torch.dtype) -> None:
    features, labels = batch()
    features, weight = features.to(dtype), WEIGHT.to(dtype)
    logits = features.float() @ weight.float().T
    values = []
    for parts in ((logits.to(dtype), features, weight), (logits.to(dtype).float(), features.float(), weight.float())):
        criterion = IsdaLoss(3, 4)
        criterion.grow(1.0)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            values.append(criterion.to(parts[0].dtype)(parts[0], labels, *parts[1:]))
        assert criterion.covariances.covariances.dtype == torch.float32
    assert values[0].dtype == torch.float32
    torch.testing.assert_close(*values)


def test_large_logits_and_the_empty_batch_stay_finite() -> None:
    criterion = ready()
    features, labels = batch()
    assert criterion(1e4 * features @ WEIGHT.T, labels, features, WEIGHT).isfinite()
    logits = torch.zeros(0, 3, requires_grad=True)
    empty = criterion.train()(logits, labels[:0], features[:0], WEIGHT)
    empty.backward()
    assert empty == 0
    assert criterion.covariances.covariances.isfinite().all()


def test_reductions() -> None:
    criterion = ready()
    values = {}
    for reduction in ("none", "sum", "mean"):
        criterion.reduction = reduction  # type: ignore[assignment]
        values[reduction] = call(criterion)
    assert values["none"].shape == (30,)
    torch.testing.assert_close(values["sum"], values["none"].sum())
    torch.testing.assert_close(values["mean"], values["none"].mean())


@pytest.mark.parametrize("kind", KINDS)
def test_compiled_without_a_break(kind: CovarianceKind) -> None:
    criterion = IsdaLoss(3, 4, covariance=kind)
    criterion.grow(1.0)
    twin = copy.deepcopy(criterion)
    compiled = torch.compile(twin, backend="eager", fullgraph=True)
    features, labels = batch()
    found = compiled(features @ WEIGHT.T, labels, features, WEIGHT)
    torch.testing.assert_close(found, call(criterion))
    torch.testing.assert_close(twin.state_dict(), criterion.state_dict())


def statistics_of(rank: int, num_ranks: int = 2, *, kind: CovarianceKind) -> dict[str, Tensor]:
    classes = ClassCovariances(3, 4, kind)
    for seed in range(3):
        features, labels = batch(seed=seed)
        classes.update(features[rank::num_ranks], labels[rank::num_ranks])
    return classes.state_dict()


@pytest.mark.parametrize("kind", KINDS)
def test_covariances_of_two_ranks_are_those_of_one_process(kind: CovarianceKind) -> None:
    expected = statistics_of(0, 1, kind=kind)
    for found in run_on_two_ranks(partial(statistics_of, kind=kind)):
        torch.testing.assert_close(found, expected)


def test_wrong_input_is_explained() -> None:
    criterion = IsdaLoss(3, 4)
    features, labels = batch()
    logits = features @ WEIGHT.T
    with pytest.raises(ValueError, match=r"logits must have shape \(N, 3\)"):
        criterion(features, labels, features, WEIGHT)
    with pytest.raises(ValueError, match=r"features must have shape \(N, 4\)"):
        criterion(logits, labels, logits, WEIGHT)
    with pytest.raises(ValueError, match="features must be those of the 30 logits; got 29"):
        criterion(logits, labels, features[1:], WEIGHT)
    with pytest.raises(ValueError, match=r"weight must have shape \(3, 4\), a row for each class; got \(4, 3\)"):
        criterion(logits, labels, features, WEIGHT.T)
    with pytest.raises(ValueError, match=r"lie in \[0, 2\]; got 3"):
        criterion(logits, labels + 1, features, WEIGHT)
    with pytest.raises(ValueError, match="strength must be finite and not negative; got -1"):
        IsdaLoss(3, 4, strength=-1.0)
    with pytest.raises(ValueError, match="unknown covariance 'spherical'; choose from full, diagonal"):
        IsdaLoss(3, 4, covariance="spherical")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="unknown reduction 'avg'"):
        IsdaLoss(3, 4, reduction="avg")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="at least 1; got 0 and 4"):
        IsdaLoss(0, 4)
