"""The distribution against scipy where scipy can, against quadrature, and against its own samples."""

import math

import numpy as np
import pytest
import scipy.integrate
import scipy.stats
import torch
from torch import Tensor
from torch.distributions import kl_divergence
from torch.nn.functional import normalize

from proco.sphere import VonMisesFisher, bessel_ratio
from proco.sphere.vmf import _angle_slope


def unit(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return normalize(torch.randn(*shape, dtype=torch.float64, generator=generator), dim=-1)


def double(value: float) -> Tensor:
    return torch.tensor(value, dtype=torch.float64)


@pytest.mark.parametrize("dim", [2, 3, 8, 40])
@pytest.mark.parametrize("kappa", [0.01, 1.0, 30.0, 500.0])
def test_density_and_entropy_agree_with_scipy(dim: int, kappa: float) -> None:
    loc, points = unit(dim), unit(20, dim, seed=1)
    ours = VonMisesFisher(loc, double(kappa))
    theirs = scipy.stats.vonmises_fisher(loc.numpy(), kappa)
    np.testing.assert_allclose(ours.log_prob(points), theirs.logpdf(points.numpy()), rtol=1e-10, atol=1e-10)
    assert ours.entropy().item() == pytest.approx(float(theirs.entropy()), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("dim", [2, 3, 17, 128, 1024])
def test_zero_concentration_is_uniform(dim: int) -> None:
    area = math.log(2) + dim / 2 * math.log(math.pi) - math.lgamma(dim / 2)
    uniform = VonMisesFisher(unit(dim), double(0.0))
    np.testing.assert_allclose(uniform.log_prob(unit(5, dim, seed=1)), -area, rtol=1e-13)
    assert uniform.entropy().item() == pytest.approx(area, rel=1e-13)
    assert uniform.mean.abs().max() == 0
    np.testing.assert_allclose(uniform.variance, 1 / dim, rtol=1e-13)
    lengths = torch.linalg.vector_norm(uniform.rsample((100,)), dim=-1)
    np.testing.assert_allclose(lengths, 1, rtol=1e-12)


@pytest.mark.parametrize("dim", [3, 128, 1024])
def test_density_integrates_to_one_at_high_dimension(dim: int) -> None:
    # Over the angle to loc: area of the (p-2)-sphere times exp(kappa cos) sin^(p-2) / C.
    kappa = 3.0 * dim
    distribution = VonMisesFisher(unit(dim), double(kappa))
    log_area = math.log(2) + (dim - 1) / 2 * math.log(math.pi) - math.lgamma((dim - 1) / 2)
    log_peak = distribution.log_prob(distribution.mode).item()

    def density(angle: float) -> float:
        return math.exp(log_area + log_peak + kappa * (math.cos(angle) - 1) + (dim - 2) * math.log(math.sin(angle)))

    total, _ = scipy.integrate.quad(density, 1e-9, math.pi - 1e-9, points=[0.3, 0.5, 0.8], epsabs=1e-11, limit=200)
    assert total == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize("dim", [2, 3, 5, 64])
@pytest.mark.parametrize("kappa", [0.0, 1.0, 30.0, 1e3, 1e5])
def test_samples_have_the_mean_and_variance(dim: int, kappa: float, device: torch.device) -> None:
    torch.manual_seed(0)
    distribution = VonMisesFisher(unit(dim), double(kappa))
    samples = VonMisesFisher(unit(dim).to(device), double(kappa).to(device)).sample((50_000,)).cpu()
    np.testing.assert_allclose(torch.linalg.vector_norm(samples, dim=-1), 1, rtol=1e-12)
    error = (samples.mean(0) - distribution.mean) / (samples.std(0) / len(samples) ** 0.5)
    assert error.abs().max() < 5
    torch.testing.assert_close(samples.var(0), distribution.variance, rtol=0.06, atol=0)


@pytest.mark.parametrize(("dim", "kappa"), [(2, 0.5), (3, 20.0), (16, 5.0), (16, 200.0)])
def test_samples_follow_the_distribution_of_the_angle(dim: int, kappa: float) -> None:
    torch.manual_seed(1)
    loc = unit(dim)
    angles = torch.acos((VonMisesFisher(loc, double(kappa)).sample((5000,)) @ loc).clamp(-1, 1)).numpy()
    grid = np.linspace(0, np.pi, 20_001)
    density = np.exp(kappa * (np.cos(grid) - 1)) * np.sin(grid) ** (dim - 2)
    cumulative = scipy.integrate.cumulative_trapezoid(density, grid, initial=0)
    result = scipy.stats.kstest(angles, lambda at: np.interp(at, grid, cumulative / cumulative[-1]))
    assert result.pvalue > 1e-4


@pytest.mark.parametrize("dim", [2, 3, 24])
@pytest.mark.parametrize("kappa", [0.3, 10.0, 400.0])
def test_sample_gradient_is_the_implicit_derivative(dim: int, kappa: float) -> None:
    # d theta/d kappa along a fixed quantile, by finite differences of a numerical quantile function.
    grid = np.linspace(0, np.pi, 200_001)

    def quantile(level: np.ndarray, at: float) -> np.ndarray:
        density = np.exp(at * (np.cos(grid) - 1)) * np.sin(grid) ** (dim - 2)
        cumulative = scipy.integrate.cumulative_trapezoid(density, grid, initial=0)
        return np.interp(level, cumulative / cumulative[-1], grid)

    level, step = np.linspace(0.02, 0.98, 25), 1e-3 * kappa
    expected = (quantile(level, kappa + step) - quantile(level, kappa - step)) / (2 * step)
    angle = torch.tensor(quantile(level, kappa))
    found = _angle_slope(angle, torch.full_like(angle, kappa), dim)
    np.testing.assert_allclose(found, expected, rtol=2e-3, atol=1e-7)


@pytest.mark.parametrize("dim", [2, 3, 128])
@pytest.mark.parametrize("kappa", [1e5, 1e7, 1e9])
def test_sample_gradient_in_float32_keeps_its_digits_at_high_concentration(dim: int, kappa: float) -> None:
    """Mean cosine and cosines round to 1 there, and their difference would be 0."""
    angle = torch.linspace(0.3, 2.0, 40, dtype=torch.float64) * math.sqrt(max(dim - 2, 1) / kappa)
    concentration = torch.full_like(angle, kappa)
    expected = _angle_slope(angle, concentration, dim)
    found = _angle_slope(angle.float(), concentration.float(), dim)
    torch.testing.assert_close(found.double(), expected, rtol=1e-3, atol=0)
    assert (expected < 0).all()  # a greater concentration draws every quantile nearer


@pytest.mark.parametrize("dim", [2, 5, 64])
def test_gradients_of_expectations_through_samples(dim: int) -> None:
    torch.manual_seed(0)
    kappa, loc = double(12.0).requires_grad_(), unit(dim).requires_grad_()
    samples = VonMisesFisher(loc, kappa).rsample((40_000,))
    target = unit(dim, seed=3)
    slope, direction = torch.autograd.grad((samples @ target).mean(), (kappa, loc))
    # E z.t = A(kappa) loc.t: its derivatives are known.
    exact_kappa, exact_loc = kappa.detach().requires_grad_(), loc.detach().requires_grad_()
    exact = bessel_ratio(dim / 2 - 1, exact_kappa) * (exact_loc @ target)
    exact_slope, exact_direction = torch.autograd.grad(exact, (exact_kappa, exact_loc))
    torch.testing.assert_close(slope, exact_slope, rtol=0.05, atol=1e-4)
    # Only the part along the sphere is determined.
    tangent = torch.eye(dim, dtype=torch.float64) - torch.outer(loc, loc).detach()
    torch.testing.assert_close(tangent @ direction, tangent @ exact_direction, rtol=0.05, atol=5e-3)


@pytest.mark.parametrize("dim", [3, 32])
def test_divergence_is_the_expected_log_ratio(dim: int) -> None:
    torch.manual_seed(0)
    p = VonMisesFisher(unit(dim), double(20.0))
    q = VonMisesFisher(unit(dim, seed=2), double(5.0))
    samples = p.sample((100_000,))
    ratio = p.log_prob(samples) - q.log_prob(samples)
    assert abs(kl_divergence(p, q) - ratio.mean()) < 5 * ratio.std() / len(ratio) ** 0.5
    assert kl_divergence(p, p).abs() < 1e-12


def test_divergence_in_float32_keeps_its_digits_at_high_concentration() -> None:
    loc = unit(128)
    for kappas in ((600.0, 601.0), (9e4, 1e5)):
        fine = [VonMisesFisher(loc, double(kappa)) for kappa in kappas]
        coarse = [VonMisesFisher(loc.float(), kappa) for kappa in kappas]
        assert kl_divergence(*coarse).dtype == torch.float32
        torch.testing.assert_close(kl_divergence(*coarse).double(), kl_divergence(*fine), rtol=1e-5, atol=0)


def test_float32_density_keeps_its_digits_at_high_concentration() -> None:
    torch.manual_seed(0)
    coarse = VonMisesFisher(unit(128).float(), 1e5)
    samples = coarse.sample((200,))
    loc, points = normalize(coarse.loc.double(), dim=-1), normalize(samples.double(), dim=-1)
    fine = VonMisesFisher(loc, double(1e5)).log_prob(points)
    torch.testing.assert_close(coarse.log_prob(samples).double(), fine, rtol=0, atol=2e-3)


@pytest.mark.parametrize("kappa", [1e19, 3e38, math.inf])
def test_sampling_ends_at_any_concentration(kappa: float) -> None:
    loc = unit(8).float()
    samples = VonMisesFisher(loc, kappa, validate_args=False).sample((50,))
    torch.testing.assert_close(samples, loc.expand(50, -1))
    assert VonMisesFisher(loc, math.nan, validate_args=False).sample((3,)).isnan().all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precisions_work(dtype: torch.dtype) -> None:
    distribution = VonMisesFisher(unit(16).to(dtype), torch.tensor(5.0, dtype=dtype))
    exact = VonMisesFisher(unit(16), double(5.0))
    for coarse, fine in ((distribution.mean, exact.mean), (distribution.variance, exact.variance)):
        assert coarse.dtype == dtype
        torch.testing.assert_close(coarse.double(), fine, rtol=2e-2, atol=1e-3)
    assert distribution.rsample((10,)).dtype == dtype
    assert distribution.log_prob(distribution.sample()).isfinite()


def test_divergence_between_different_spheres_is_refused() -> None:
    with pytest.raises(ValueError, match="different dimensions: 3 and 4"):
        kl_divergence(VonMisesFisher(unit(3), double(1.0)), VonMisesFisher(unit(4), double(1.0)))


def test_batch_shapes_broadcast_and_expand() -> None:
    distribution = VonMisesFisher(unit(4, 1, 6), torch.rand(3, dtype=torch.float64))
    assert distribution.batch_shape == (4, 3)
    assert distribution.event_shape == (6,)
    assert distribution.rsample((2, 5)).shape == (2, 5, 4, 3, 6)
    assert distribution.log_prob(unit(4, 3, 6)).shape == (4, 3)
    assert distribution.entropy().shape == (4, 3)
    wide = distribution.expand((7, 4, 3))
    assert wide.sample().shape == (7, 4, 3, 6)
    torch.testing.assert_close(wide.mean[2], distribution.mean)
    single = VonMisesFisher(unit(4, 6), double(2.0))
    assert single.batch_shape == (4,)
    assert kl_divergence(single, VonMisesFisher(unit(6), double(1.0))).shape == (4,)


def test_arguments_and_values_are_validated() -> None:
    # Said aloud: torch.compile, once used in a process, turns the default off for all distributions.
    with pytest.raises(ValueError, match="loc"):
        VonMisesFisher(torch.ones(3), torch.tensor(1.0), validate_args=True)
    with pytest.raises(ValueError, match="concentration"):
        VonMisesFisher(torch.eye(3)[0], torch.tensor(-1.0), validate_args=True)
    with pytest.raises(ValueError, match="at least 2 dimensions"):
        VonMisesFisher(torch.ones(1), torch.tensor(1.0))
    with pytest.raises(ValueError, match="support"):
        VonMisesFisher(torch.eye(3)[0], torch.tensor(1.0), validate_args=True).log_prob(torch.ones(3))


def test_log_prob_has_gradients() -> None:
    kappa = torch.tensor([0.5, 3.0, 80.0], dtype=torch.float64, requires_grad=True)
    loc, points = unit(3, 9), unit(3, 9, seed=1)
    assert torch.autograd.gradcheck(lambda k: VonMisesFisher(loc, k).log_prob(points), (kappa,))
    assert torch.autograd.gradcheck(lambda k: VonMisesFisher(loc, k).entropy(), (kappa,))


def test_expanded_distributions_go_on_to_validate() -> None:
    checked = VonMisesFisher(torch.eye(3)[0], torch.tensor(1.0), validate_args=True).expand((2,))
    with pytest.raises(ValueError, match="support"):
        checked.log_prob(torch.ones(2, 3))
    unchecked = VonMisesFisher(torch.eye(3)[0], torch.tensor(1.0), validate_args=False).expand((2,))
    assert unchecked.log_prob(torch.ones(2, 3)).shape == (2,)


def test_lengths_are_validated_to_the_precision_of_their_type() -> None:
    loc = torch.eye(3)[0]
    VonMisesFisher(1.001 * loc, torch.tensor(1.0), validate_args=True)
    with pytest.raises(ValueError, match="loc"):
        VonMisesFisher(1.01 * loc, torch.tensor(1.0), validate_args=True)
    with pytest.raises(ValueError, match="loc"):
        VonMisesFisher(1.001 * loc.double(), torch.tensor(1.0).double(), validate_args=True)
    in_float32 = normalize(torch.randn(2000, 2048, generator=torch.Generator().manual_seed(0)), dim=1)
    VonMisesFisher(in_float32.double(), torch.ones(2000).double(), validate_args=True)


def test_divergence_has_the_finer_type_of_the_two() -> None:
    coarse, fine = (VonMisesFisher(torch.eye(3)[0].to(kind), 2.0) for kind in (torch.float32, torch.float64))
    assert kl_divergence(coarse, fine).dtype == kl_divergence(fine, coarse).dtype == torch.float64
