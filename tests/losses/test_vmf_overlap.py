"""Overlaps of von Mises-Fisher distributions against their divergence by sampling, quadrature and exact functions."""

import math

import pytest
import scipy.integrate
import torch
from torch import Tensor
from torch.distributions import kl_divergence
from torch.nn.functional import normalize

from proco.losses import class_feature_consistency, class_overlap, inter_class_discrepancy
from proco.sphere import VonMisesFisher, bessel_ratio

KAPPA = torch.tensor([16.0, 1.0, 40.0, 300.0])


def directions(dim: int = 8, seed: int = 0) -> Tensor:
    return normalize(torch.randn(4, dim, generator=torch.Generator().manual_seed(seed)), dim=1)


def batch(dim: int = 8) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(5)
    labels = torch.tensor([0, 0, 0, 1, 1, 3])  # class 2 is absent, class 3 has one image
    return 4 * (directions(dim)[labels] + torch.randn(len(labels), dim, generator=generator)), labels


@pytest.mark.parametrize("dim", [3, 8, 64, 512])
def test_overlaps_follow_from_the_divergence_of_each_pair(dim: int) -> None:
    overlap = class_overlap(directions(dim), KAPPA)
    for j in range(4):
        for k in range(4):
            one, other = (VonMisesFisher(directions(dim)[i].double(), KAPPA[i].double()) for i in (j, k))
            expected = 1 / (1 + kl_divergence(one, other).item())
            assert overlap[j, k].item() == pytest.approx(expected, rel=1e-4, abs=1e-6), (j, k)


def test_divergence_is_the_mean_log_ratio_of_samples() -> None:
    torch.manual_seed(0)
    mu, kappa = directions().double(), KAPPA.double()
    distributions = [VonMisesFisher(mu[j], kappa[j]) for j in range(4)]
    overlap = class_overlap(mu, kappa)
    for j, one in enumerate(distributions):
        samples = one.sample((40_000,))
        for k, other in enumerate(distributions):
            divergence = (one.log_prob(samples) - other.log_prob(samples)).mean()
            torch.testing.assert_close(1 / overlap[j, k] - 1, divergence, rtol=2e-2, atol=1e-4)


def test_divergence_is_the_integral_over_the_circle() -> None:
    angles, kappas = [0.3, 2.0], [5.0, 20.0]
    mu = torch.tensor([[math.cos(angle), math.sin(angle)] for angle in angles], dtype=torch.float64)

    def log_density(i: int, angle: float) -> float:
        total, _ = scipy.integrate.quad(lambda a: math.exp(kappas[i] * (math.cos(a) - 1)), 0, 2 * math.pi)
        return kappas[i] * (math.cos(angle - angles[i]) - 1) - math.log(total)

    def integrand(angle: float) -> float:
        return math.exp(log_density(0, angle)) * (log_density(0, angle) - log_density(1, angle))

    divergence, _ = scipy.integrate.quad(integrand, angles[0] - math.pi, angles[0] + math.pi)
    found = class_overlap(mu, torch.tensor(kappas, dtype=torch.float64))[0, 1]
    assert 1 / found.item() - 1 == pytest.approx(divergence, rel=1e-7)


def test_discrepancy_is_the_mean_over_different_classes() -> None:
    overlap = class_overlap(directions(), KAPPA)
    expected = sum(float(overlap[j, k]) for j in range(4) for k in range(4) if j != k) / 12
    assert inter_class_discrepancy(directions(), KAPPA).item() == pytest.approx(expected, rel=1e-5)
    same = directions()[:1].expand(4, -1)
    assert inter_class_discrepancy(same, torch.full((4,), 16.0)).item() == pytest.approx(1.0, rel=1e-5)
    assert inter_class_discrepancy(directions()[:1], KAPPA[:1]) == 0


def test_classes_part_along_the_gradient() -> None:
    angle = torch.tensor(0.5, dtype=torch.float64, requires_grad=True)
    first = torch.tensor([1.0, 0.0, 0.0], dtype=torch.float64)
    second = torch.stack([angle.cos(), angle.sin(), torch.zeros_like(angle)])
    kappa = torch.tensor([16.0, 16.0], dtype=torch.float64)
    inter_class_discrepancy(torch.stack([first, second]), kappa).backward()
    assert angle.grad < 0


def test_consistency_is_the_mean_over_the_classes_of_the_batch() -> None:
    features, labels = batch()
    losses = []
    for j in (0, 1, 3):
        units = [row.double() / row.double().norm() for row, y in zip(features, labels, strict=True) if y == j]
        total = torch.stack(units).sum(0)
        cosine = float(total @ directions()[j].double() / total.norm())
        divergence = float(bessel_ratio(3.0, KAPPA[j].double()) * KAPPA[j]) * (1 - cosine)
        losses.append(1 - 1 / (1 + divergence))
    found = class_feature_consistency(directions(), KAPPA, features, labels)
    assert found.item() == pytest.approx(sum(losses) / 3, rel=1e-5)


def test_features_along_their_class_are_consistent() -> None:
    labels = torch.tensor([0, 2, 3])
    value = class_feature_consistency(directions(), KAPPA, 3 * directions()[labels], labels)
    assert value.item() == pytest.approx(0.0, abs=1e-4)
    away = class_feature_consistency(directions(), KAPPA, -3 * directions()[labels], labels)
    assert away > 0.9


def test_gradients_are_right_and_absent_classes_get_none() -> None:
    features, labels = batch()
    inputs = [value.double().requires_grad_() for value in (directions(), KAPPA, features)]
    assert torch.autograd.gradcheck(lambda mu, kappa, f: class_feature_consistency(mu, kappa, f, labels), inputs)
    assert torch.autograd.gradcheck(inter_class_discrepancy, inputs[:2])
    class_feature_consistency(*inputs, labels).backward()  # type: ignore[misc]
    for value in inputs[:2]:
        assert value.grad is not None
        assert value.grad.isfinite().all()
        assert value.grad[2].abs().max() == 0
        assert value.grad[[0, 1, 3]].abs().max() > 0


def test_autocast_keeps_float32() -> None:
    features, labels = batch()
    close = normalize(directions() + 3, dim=1)  # the nearer classes are, the more a rounded cosine is off
    with torch.autocast("cpu", dtype=torch.bfloat16):
        overlap, missed = class_overlap(close, KAPPA), class_feature_consistency(close, KAPPA, features, labels)
    assert torch.equal(overlap, class_overlap(close, KAPPA))
    assert torch.equal(missed, class_feature_consistency(close, KAPPA, features, labels))


def test_the_empty_batch_is_consistent() -> None:
    features, labels = batch()
    empty = class_feature_consistency(directions(), KAPPA, features[:0].requires_grad_(), labels[:0])
    empty.backward()
    assert empty == 0


def test_the_order_of_classes_does_not_matter() -> None:
    features, labels = batch()
    order = torch.tensor([3, 1, 0, 2])  # class j becomes order[j]
    mu, kappa = torch.empty(4, 8), torch.empty(4)
    mu[order], kappa[order] = directions(), KAPPA
    torch.testing.assert_close(inter_class_discrepancy(mu, kappa), inter_class_discrepancy(directions(), KAPPA))
    torch.testing.assert_close(
        class_feature_consistency(mu, kappa, features, order[labels]),
        class_feature_consistency(directions(), KAPPA, features, labels),
    )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_left_for_float32(dtype: torch.dtype) -> None:
    features, labels = batch()
    mu, features = directions().to(dtype), features.to(dtype)
    found = class_feature_consistency(mu, KAPPA.to(dtype), features, labels)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, class_feature_consistency(mu.float(), KAPPA, features.float(), labels))


def test_concentrated_classes_stay_finite() -> None:
    overlap = class_overlap(directions(), torch.full((4,), 1e6))
    assert overlap.isfinite().all()
    assert torch.equal(overlap.diagonal(), torch.ones(4))  # though cosines of a direction with itself are rounded
    assert overlap[0, 1] < 1e-4


def test_compiled_without_a_break() -> None:
    features, labels = batch()
    for function, inputs in (
        (inter_class_discrepancy, (directions(), KAPPA)),
        (class_feature_consistency, (directions(), KAPPA, features, labels)),
    ):
        compiled = torch.compile(function, backend="eager", fullgraph=True)
        torch.testing.assert_close(compiled(*inputs), function(*inputs))  # type: ignore[operator]


def test_wrong_input_is_explained() -> None:
    features, labels = batch()
    with pytest.raises(ValueError, match=r"concentration must have shape \(4,\), one number per class; got \(3,\)"):
        class_overlap(directions(), KAPPA[:3])
    with pytest.raises(ValueError, match=r"features must have shape \(N, 8\)"):
        class_feature_consistency(directions(), KAPPA, features[:, :5], labels)
    with pytest.raises(ValueError, match=r"lie in \[0, 3\]; got 4"):
        class_feature_consistency(directions(), KAPPA, features, labels + 1)
    with pytest.raises(ValueError, match="directions must have 2 or more dimensions; got 1"):
        class_overlap(torch.ones(4, 1), KAPPA)
