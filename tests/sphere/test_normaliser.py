"""The relative log-normaliser against exact Bessel functions, its gradient, and its precision."""

import mpmath
import pytest
import torch

from proco.sphere import bessel_ratio
from proco.sphere.normaliser import relative_log_normaliser


def exact(kappa: float, dim: int, reference: float) -> float:
    with mpmath.workdps(40):
        order = mpmath.mpf(dim) / 2 - 1
        logs = [mpmath.log(mpmath.besseli(order, k)) - order * mpmath.log(k) for k in (kappa, reference)]
        return float(logs[0] - logs[1])


@pytest.mark.parametrize("dim", [2, 3, 64, 129, 2048])
def test_values_keep_the_digits_of_float32(dim: int) -> None:
    kappas = [1.0, 15.9, 16.1, 100.0, 5000.0]
    found = relative_log_normaliser(torch.tensor(kappas), dim, reference=16.0)
    expected = torch.tensor([exact(kappa, dim, 16.0) for kappa in torch.tensor(kappas).tolist()])
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=0)


def test_it_is_zero_at_the_reference_and_has_the_slope_of_the_mean_length() -> None:
    kappa = torch.tensor([1.0, 16.0, 300.0], dtype=torch.float64, requires_grad=True)
    value = relative_log_normaliser(kappa, 64, reference=16.0)
    assert value[1] == 0
    value.sum().backward()
    torch.testing.assert_close(kappa.grad, bessel_ratio(31.0, kappa.detach()), rtol=1e-12, atol=0)
    assert torch.autograd.gradcheck(lambda k: relative_log_normaliser(k, 64, reference=16.0), kappa)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_the_type_is_that_of_the_concentration(dtype: torch.dtype) -> None:
    assert relative_log_normaliser(torch.ones(2, dtype=dtype), 64, reference=16.0).dtype == dtype


def test_a_line_has_no_sphere() -> None:
    with pytest.raises(ValueError, match="dim must be at least 2; got 1"):
        relative_log_normaliser(torch.ones(1), 1, reference=16.0)
