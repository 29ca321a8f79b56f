"""Bessel functions against 30-digit values, region by region, and against slow methods that share no code with them."""

import csv
import math
from collections.abc import Callable
from pathlib import Path

import mpmath
import numpy as np
import pytest
import torch
from benchmarks.miller import miller_log_ive
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

from proco.sphere import bessel_ratio, log_iv, log_ive
from proco.sphere.bessel import (
    _ROOT,
    _ROOT_REST,
    _SLANT_AT_ROOT,
    _scaled_root,
    bessel_ratio_minus_one,
    bessel_ratio_slope,
    log_ive_regular,
)

Function = Callable[[float, Tensor], Tensor]
PUBLIC: list[Function] = [log_iv, log_ive, bessel_ratio]

with (Path(__file__).parent / "data" / "bessel.csv").open() as file:
    TABLE = [{name: float(text) for name, text in row.items()} for row in csv.DictReader(file)]

REGIONS: dict[str, Callable[[float, float], bool]] = {
    "tiny x": lambda order, x: x < 1e-3,
    "small order, small x": lambda order, x: order < 15 and 1e-3 <= x < 10,
    "small order, seam": lambda order, x: order < 15 and 5 <= x < 50,
    "small order, large x": lambda order, x: order < 15 and x >= 22,
    "x far below the order": lambda order, x: order >= 15 and 1e-3 <= x < order / 10,
    "zero of log I": lambda order, x: order >= 15 and 0.5 * order < x < 0.8 * order,
    "x near the order": lambda order, x: order >= 15 and order / 10 <= x < 10 * order,
    "x far above the order": lambda order, x: order >= 15 and x >= 10 * order,
    "huge x": lambda order, x: x > 1e6,
}
# Allowed error of the logarithms as a multiple of 1 + |value|, and of the ratio relative to it.
LOG_TOLERANCE = {torch.float64: 1e-13, torch.float32: 2e-6}
RATIO_TOLERANCE = {torch.float64: 1e-12, torch.float32: 1e-6}


def rows_of(region: str) -> list[dict[str, float]]:
    return [row for row in TABLE if REGIONS[region](row["order"], row["x"])]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("region", REGIONS)
def test_values_agree_with_the_30_digit_table(region: str, dtype: torch.dtype, device: torch.device) -> None:
    rows = rows_of(region)
    assert len(rows) >= 10
    for order in sorted({row["order"] for row in rows}):
        here = [row for row in rows if row["order"] == order]
        x = torch.tensor([row["x"] for row in here], dtype=dtype, device=device)
        for function in (log_iv, log_ive):
            exact = torch.tensor([row[function.__name__] for row in here], dtype=torch.float64, device=device)
            error = (function(order, x).double() - exact).abs() / (1 + exact.abs())
            assert error.max() <= LOG_TOLERANCE[dtype], (function.__name__, order, x[error.argmax()])
        exact = torch.tensor([row["ratio"] for row in here], dtype=torch.float64, device=device)
        error = (bessel_ratio(order, x).double() / exact - 1).abs()
        assert error.max() <= RATIO_TOLERANCE[dtype], (order, x[error.argmax()])


def test_table_covers_the_whole_domain() -> None:
    covered = [any(inside(row["order"], row["x"]) for inside in REGIONS.values()) for row in TABLE]
    assert all(covered)
    orders = {0, 0.5, 1, 2.5, 7, 15, 31, 63, 127, 511, 1023, 4095, 1e5}
    assert {row["order"] for row in TABLE} == orders
    for order in orders:
        x = [row["x"] for row in TABLE if row["order"] == order]
        assert min(x) == pytest.approx(1e-8)
        assert max(x) == 1e8


@pytest.mark.parametrize("order", [0.3, 4.75, 14.999, 15.001, 200.0])
def test_orders_outside_of_the_table_agree_with_mpmath(order: float) -> None:
    with mpmath.workdps(40):
        for x in (0.01, 1.0, 12.5, 150.0, 3000.0):
            here, above = mpmath.besseli(order, x), mpmath.besseli(order + 1, x)
            at = torch.tensor(x, dtype=torch.float64)
            assert log_iv(order, at).item() == pytest.approx(float(mpmath.log(here)), rel=1e-13, abs=1e-13)
            assert log_ive(order, at).item() == pytest.approx(float(mpmath.log(here) - x), rel=1e-13, abs=1e-13)
            assert bessel_ratio(order, at).item() == pytest.approx(float(above / here), rel=1e-12)


def test_half_orders_are_hyperbolic_functions() -> None:
    x = torch.logspace(-3, 2, 50, dtype=torch.float64)
    sinh = torch.log(torch.sinh(x) * torch.sqrt(2 / (math.pi * x)))
    torch.testing.assert_close(log_iv(0.5, x), sinh, rtol=1e-13, atol=1e-13)
    torch.testing.assert_close(bessel_ratio(0.5, x)[10:], (1 / torch.tanh(x) - 1 / x)[10:], rtol=1e-11, atol=0)


@pytest.mark.parametrize("dim", [16, 128, 512])
def test_paper_recurrence_agrees_where_it_is_accurate(dim: int) -> None:
    # Miller's recurrence from order p is exact while x is small beside p^2 (26 times the order at p = 128).
    x = torch.logspace(-1, math.log10(dim**2 / 100), 40, dtype=torch.float64)
    torch.testing.assert_close(log_ive(dim / 2 - 1, x), miller_log_ive(dim, x), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("order", [0.0, 3.5, 63.0])
def test_ratio_obeys_the_recurrence_of_neighbouring_orders(order: float) -> None:
    x = torch.logspace(-2, 4, 60, dtype=torch.float64)
    through_the_next = 1 / (2 * (order + 1) / x + bessel_ratio(order + 1, x))
    torch.testing.assert_close(bessel_ratio(order, x), through_the_next, rtol=1e-13, atol=0)


def test_values_at_zero() -> None:
    zero = torch.zeros(1, dtype=torch.float64)
    assert log_iv(0, zero) == 0
    assert log_ive(0, zero) == 0
    for order in (0.5, 7.0, 15.0, 63.0):
        assert log_iv(order, zero) == -math.inf
        assert log_ive(order, zero) == -math.inf
        regular = -order * math.log(2) - math.lgamma(order + 1)
        assert log_ive_regular(order, zero).item() == pytest.approx(regular, rel=1e-14)
    for order in (0.0, 0.5, 7.0, 15.0, 63.0):
        assert bessel_ratio(order, zero) == 0
        assert bessel_ratio_slope(order, zero).item() == pytest.approx(1 / (2 * order + 2), rel=1e-14)


def test_smallest_and_largest_floats_do_not_overflow() -> None:
    x = torch.tensor([1e-37, 1e-30, 1e30, 3e38])
    for order in (0.0, 2.5, 63.0, 1e5):
        for function in PUBLIC:
            assert function(order, x).isfinite().all()


def test_ratio_minus_one_keeps_its_digits_at_large_x() -> None:
    for order in (0.0, 3.0, 63.0, 1023.0):
        x = torch.logspace(-1, 7, 50, dtype=torch.float64).float()
        with mpmath.workdps(40):
            exact = [float(mpmath.besseli(order + 1, v) / mpmath.besseli(order, v) - 1) for v in x[::10].tolist()]
        torch.testing.assert_close(
            bessel_ratio_minus_one(order, x[::10]).double(), torch.tensor(exact, dtype=torch.float64), rtol=3e-6, atol=0
        )


@pytest.mark.parametrize("order", [0.0, 0.5, 3.2, 14.9, 15.0, 63.0, 511.0])
@pytest.mark.parametrize("function", [*PUBLIC, log_ive_regular, bessel_ratio_minus_one])
def test_first_and_second_derivatives(function: Function, order: float) -> None:
    x = torch.logspace(-2, 3, 12, dtype=torch.float64, requires_grad=True)
    assert gradcheck(lambda at: function(order, at), (x,))
    assert gradgradcheck(lambda at: function(order, at), (x,))


@pytest.mark.parametrize("order", [0.0, 63.0])
def test_float32_derivatives_keep_their_digits_at_large_x(order: float) -> None:
    def slopes(dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        x = torch.logspace(3, 7, 20).to(dtype).requires_grad_()
        first = torch.autograd.grad(log_ive(order, x).sum(), x)[0]
        return first.double(), torch.autograd.grad(bessel_ratio(order, x).sum(), x)[0].double()

    for coarse, fine in zip(slopes(torch.float32), slopes(torch.float64), strict=True):
        torch.testing.assert_close(coarse, fine, rtol=2e-6, atol=0)


@pytest.mark.parametrize("order", [1.5, 63.0])
@pytest.mark.parametrize("function", PUBLIC)
def test_vmap_and_functional_gradients(function: Function, order: float) -> None:
    x = torch.rand(3, 4, dtype=torch.float64) * 30 + 0.1
    assert torch.equal(torch.func.vmap(lambda row: function(order, row))(x), function(order, x))
    gradients = torch.func.vmap(torch.func.grad(lambda at: function(order, at)))(x.flatten())
    at = x.flatten().requires_grad_()
    torch.testing.assert_close(gradients, torch.autograd.grad(function(order, at).sum(), at)[0])


@pytest.mark.parametrize("function", PUBLIC)
@pytest.mark.parametrize("order", [1.5, 63.0])
def test_compiles_into_one_graph(function: Function, order: float) -> None:
    # aot_eager traces forward and backward like the full compiler, without generating code.
    compiled = torch.compile(lambda at: function(order, at), fullgraph=True, backend="aot_eager")
    x = torch.logspace(-3, 4, 50, requires_grad=True)
    torch.testing.assert_close(compiled(x), function(order, x))
    gradients = [torch.autograd.grad(run(x).sum(), x)[0] for run in (compiled, lambda at: function(order, at))]
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precisions_are_computed_in_float32(dtype: torch.dtype) -> None:
    x = torch.tensor([0.5, 8.0, 300.0], dtype=dtype)
    for function in PUBLIC:
        value = function(15.0, x)
        assert value.dtype == dtype
        assert torch.equal(value, function(15.0, x.float()).to(dtype))


def test_whole_numbers_become_floats() -> None:
    assert log_iv(0, torch.tensor([1, 2])).dtype == torch.get_default_dtype()


def test_wrong_arguments_are_explained() -> None:
    with pytest.raises(ValueError, match=r"order must be a finite number of at least 0; got -1\.0"):
        log_iv(-1, torch.ones(1))
    with pytest.raises(ValueError, match="order must be a finite"):
        bessel_ratio(math.nan, torch.ones(1))
    with pytest.raises(TypeError, match="x must be a tensor; got float"):
        log_ive(1, 2.0)  # type: ignore[arg-type]


def test_constants_of_the_root() -> None:
    with mpmath.workdps(50):
        root = mpmath.findroot(lambda z: mpmath.sqrt(1 + z * z) - mpmath.asinh(1 / z), 0.66)
        assert abs(mpmath.mpf(_ROOT) + mpmath.mpf(_ROOT_REST) - root) < mpmath.mpf(10) ** -33
        assert float(mpmath.sqrt(1 + root**2)) == _SLANT_AT_ROOT
        for order in (15.0, 63.7, 1e5, math.pi * 1e3):
            high, low = _scaled_root(order, torch.float32)
            assert np.float32(high) == high
            assert abs(mpmath.mpf(high) + mpmath.mpf(low) - order * root) < 1e-22 * order
