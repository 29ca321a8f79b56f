"""The log moment-generating function against exact values, high-precision arithmetic and sampling."""

import mpmath
import pytest
import torch

from proco.sphere import VonMisesFisher, log_mgf


def exact_log_mgf(kappa: float, cosine: float, length: float, dim: int) -> float:
    with mpmath.workdps(40):
        order = mpmath.mpf(dim) / 2 - 1

        def log_normalizer(at: mpmath.mpf) -> mpmath.mpf:
            if at == 0:
                return -order * mpmath.log(2) - mpmath.loggamma(order + 1)
            return mpmath.log(mpmath.besseli(order, at)) - order * mpmath.log(at)

        kappa = mpmath.mpf(kappa)
        tilted = mpmath.sqrt(kappa**2 + 2 * kappa * mpmath.mpf(cosine) * length + mpmath.mpf(length) ** 2)
        return float(log_normalizer(tilted) - log_normalizer(kappa))


# p = 128, temperature 0.1: logits worked out with 40 digits by the authors of the reference notes.
ORACLE = [
    (100, [-0.2745, 1.9040, 5.1006]),
    (606, [-0.8269, 2.7699, 8.1257]),
    (2500, [-0.9556, 2.9425, 8.7784]),
    (1e5, [-0.9989, 2.9986, 8.9944]),
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("kappa", "logits"), ORACLE)
def test_oracle_logits_to_their_printed_digits(kappa: float, logits: list[float], dtype: torch.dtype) -> None:
    cosine = torch.tensor([-0.1, 0.3, 0.9], dtype=dtype)
    found = log_mgf(torch.tensor(kappa, dtype=dtype), cosine, 10.0, 128)
    rounding = 5e-5 if dtype == torch.float64 else 5.3e-5
    assert found.tolist() == pytest.approx(logits, abs=rounding, rel=0)


@pytest.mark.parametrize("dim", [2, 3, 5, 16, 31, 32, 33, 128])
@pytest.mark.parametrize("kappa", [0.0, 0.5, 10.0, 100.0, 3000.0])
def test_any_dimension_and_concentration_agrees_with_mpmath(dim: int, kappa: float) -> None:
    for cosine in (-1.0, -0.25, 0.5, 1.0):
        exact = exact_log_mgf(kappa, cosine, 10.0, dim)
        for dtype, tolerance in ((torch.float64, 1e-13), (torch.float32, 2e-6)):
            found = log_mgf(torch.tensor(kappa, dtype=dtype), torch.tensor(cosine, dtype=dtype), 10.0, dim).item()
            assert abs(found - exact) <= tolerance * (1 + abs(exact))


@pytest.mark.parametrize("dim", [2, 128, 2048])
def test_float32_keeps_its_digits_at_the_largest_concentrations(dim: int) -> None:
    kappa, cosine = torch.logspace(4, 5, 20), torch.linspace(-1, 1, 20)
    fine = log_mgf(kappa.double(), cosine.double(), 10.0, dim)
    torch.testing.assert_close(log_mgf(kappa, cosine, 10.0, dim).double(), fine, rtol=0, atol=5e-6)


def test_expectation_over_samples() -> None:
    torch.manual_seed(0)
    loc = torch.nn.functional.normalize(torch.randn(6, dtype=torch.float64), dim=0)
    direction = torch.nn.functional.normalize(torch.randn(6, dtype=torch.float64), dim=0)
    distribution = VonMisesFisher(loc, torch.tensor(4.0, dtype=torch.float64))
    weights = torch.exp(2.5 * distribution.sample((200_000,)) @ direction)
    error = weights.mean().log() - distribution.log_mgf(direction, 2.5)
    assert abs(error) < 5 * weights.std() / weights.mean() / len(weights) ** 0.5


@pytest.mark.parametrize("dim", [3, 16, 64])
def test_gradients_of_both_arguments(dim: int) -> None:
    kappa = torch.tensor([0.5, 8.0, 120.0], dtype=torch.float64, requires_grad=True)
    cosine = torch.tensor([[-0.6, 0.1, 0.9], [0.2, 0.8, -0.3]], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda k, c: log_mgf(k, c, 5.0, dim), (kappa, cosine))
    assert torch.autograd.gradgradcheck(lambda k, c: log_mgf(k, c, 5.0, dim), (kappa, cosine))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precisions_are_computed_in_float32(dtype: torch.dtype) -> None:
    kappa, cosine = torch.tensor([5.0, 300.0], dtype=dtype), torch.tensor([0.5, -0.25], dtype=dtype)
    found = log_mgf(kappa, cosine, 10.0, 64)
    assert torch.equal(found, log_mgf(kappa.float(), cosine.float(), 10.0, 64).to(dtype))


def test_vmap_and_compile() -> None:
    kappa, cosine = torch.rand(5) * 100, torch.rand(4, 5)
    expected = log_mgf(kappa, cosine, 10.0, 64)
    torch.testing.assert_close(torch.func.vmap(lambda c: log_mgf(kappa, c, 10.0, 64))(cosine), expected)
    compiled = torch.compile(lambda k, c: log_mgf(k, c, 10.0, 64), fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(kappa, cosine), expected)


@pytest.mark.parametrize("dim", [1, 0, -3])
def test_a_sphere_has_two_dimensions_at_least(dim: int) -> None:
    with pytest.raises(ValueError, match=f"dim must be at least 2; got {dim}"):
        log_mgf(torch.tensor(2.0), torch.tensor(0.5), 1.0, dim)
