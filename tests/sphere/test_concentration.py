"""Concentrations from mean lengths: formulas, the exact solution and the ends of the range."""

import math

import pytest
import torch

from proco.sphere import bessel_ratio, concentration_from_mean_length
from proco.sphere.concentration import ConcentrationMethod

METHODS: list[ConcentrationMethod] = ["sra", "exact", "official"]


def test_formulas_at_the_documented_point() -> None:
    length = torch.tensor(0.9, dtype=torch.float64)
    assert concentration_from_mean_length(length, 128, "official").item() == pytest.approx(606.3158, abs=1e-4)
    assert concentration_from_mean_length(length, 128, "sra").item() == pytest.approx(602.4789, abs=1e-4)


@pytest.mark.parametrize("dim", [2, 3, 4, 16, 128, 2048, 8192])
def test_exact_solution_gives_the_mean_length_back(dim: int) -> None:
    length = torch.cat([torch.logspace(-10, -0.01, 40).double(), 1 - torch.logspace(-2, -9, 20).double()])
    kappa = concentration_from_mean_length(length, dim, "exact", max_concentration=1e14)
    torch.testing.assert_close(bessel_ratio(dim / 2 - 1, kappa), length, rtol=1e-14, atol=0)


@pytest.mark.parametrize("dim", [2, 3])
def test_exact_solution_reaches_its_cap_where_the_concentration_does(dim: int) -> None:
    # In few dimensions the upper bracket of the solution passes the cap of 1e5 long before the solution.
    kappa = torch.tensor([0.6e5, 0.9e5], dtype=torch.float64)
    found = concentration_from_mean_length(bessel_ratio(dim / 2 - 1, kappa), dim, "exact")
    torch.testing.assert_close(found, kappa, rtol=1e-4, atol=0)


@pytest.mark.parametrize("dim", [3, 128])
def test_exact_solution_inverts_the_bessel_ratio(dim: int) -> None:
    kappa = torch.logspace(-3, 4, 50, dtype=torch.float64)
    found = concentration_from_mean_length(bessel_ratio(dim / 2 - 1, kappa), dim, "exact")
    torch.testing.assert_close(found, kappa, rtol=1e-10, atol=0)


@pytest.mark.parametrize("dim", [2, 3, 16, 128])
def test_brackets_of_the_exact_solution(dim: int) -> None:
    length = torch.linspace(0.01, 0.99, 99, dtype=torch.float64)
    exact = concentration_from_mean_length(length, dim, "exact")
    upper = concentration_from_mean_length(length, dim, "official")
    assert (exact <= upper).all()
    assert (exact >= upper * (dim - 1) / dim).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("method", METHODS)
def test_ends_of_the_range_are_defined(method: ConcentrationMethod, dtype: torch.dtype) -> None:
    length = torch.tensor([0.0, 1e-30, 1 - 1e-7, 1.0, 1.0 + 1e-6], dtype=dtype, requires_grad=True)
    kappa = concentration_from_mean_length(length, 64, method)
    assert kappa[0] == 0
    assert kappa.isfinite().all()
    assert (kappa[2:] == 1e5).all()
    assert (concentration_from_mean_length(length, 64, method, max_concentration=50.0)[2:] == 50).all()
    assert torch.autograd.grad(kappa.sum(), length)[0].isfinite().all()


@pytest.mark.parametrize("method", METHODS)
def test_gradient(method: ConcentrationMethod) -> None:
    length = torch.linspace(0.05, 0.95, 10, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda at: concentration_from_mean_length(at, 16, method), (length,))


@pytest.mark.parametrize("method", METHODS)
def test_half_precisions_are_computed_in_float32(method: ConcentrationMethod) -> None:
    length = torch.tensor([0.25, 0.5], dtype=torch.bfloat16)
    found = concentration_from_mean_length(length, 64, method)
    assert torch.equal(found, concentration_from_mean_length(length.float(), 64, method).bfloat16())


def test_wrong_arguments_are_explained() -> None:
    length = torch.tensor(0.5)
    with pytest.raises(ValueError, match="unknown concentration method 'newton'; choose from sra, exact, official"):
        concentration_from_mean_length(length, 16, "newton")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="dim must be at least 2; got 1"):
        concentration_from_mean_length(length, 1)
    with pytest.raises(ValueError, match="max_concentration must be positive"):
        concentration_from_mean_length(length, 4, max_concentration=0)
    for too_large in (math.inf, 1e20):
        with pytest.raises(ValueError, match=r"max_concentration must be positive and at most 1e\+18"):
            concentration_from_mean_length(length, 4, max_concentration=too_large)
