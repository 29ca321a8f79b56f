"""Logarithms and ratios of the modified Bessel function I_nu(x) of any real order nu >= 0, elementwise in torch.

Orders from 15 on (spheres of 32 dimensions or more) need Debye's expansion alone: no loop, no branch on values, no
synchronisation with the device. Below that the expansion serves where sqrt(nu^2 + x^2) is large; the rest climbs to
an order above 15 and comes down by the recurrence of the ratios, which loses nothing in that direction.

Notation: s = sqrt(nu^2 + x^2), r = I_(nu+1)(x)/I_nu(x), rho = r/x (regular at x = 0).
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from proco.sphere import debye


def log_iv(order: float, x: Tensor) -> Tensor:
    """Return log I_order(x).

    Domain: order >= 0, finite x >= 0 of any shape (NaN for negative x); log I_0(0) = 0 and log I_order(0) = -inf
    otherwise. The absolute error is below 1e-13 (1 + |value|) in float64 and 2e-6 (1 + |value|) in float32; half
    precisions are computed in float32.

    >>> log_iv(63.0, torch.tensor([1.0, 1e3, 1e6], dtype=torch.float64))
    tensor([-2.4467e+02,  9.9364e+02,  9.9999e+05], dtype=torch.float64)
    """
    return _apply("log_iv", order, x)


def log_ive(order: float, x: Tensor) -> Tensor:
    """Return log(I_order(x) exp(-x)): `log_iv` without its growth. Same domain and error bounds."""
    return _apply("log_ive", order, x)


def bessel_ratio(order: float, x: Tensor) -> Tensor:
    """Return I_(order+1)(x) / I_order(x), which rises from 0 to 1.

    With order = p/2 - 1 it is A_p(x), the length of the mean of a von Mises-Fisher vector of concentration x. The
    relative error is below 1e-12 in float64 and 1e-6 in float32.
    """
    return _apply("ratio", order, x)


def log_ive_regular(order: float, x: Tensor) -> Tensor:
    """Return log(I_order(x) exp(-x) x^-order), which is smooth at x = 0; its derivative is `bessel_ratio` - 1."""
    return _apply("log_ive_regular", order, x)


def bessel_ratio_minus_one(order: float, x: Tensor) -> Tensor:
    """Return `bessel_ratio` - 1 without the cancellation at large x."""
    return _apply("ratio_minus_one", order, x)


def bessel_ratio_slope(order: float, x: Tensor) -> Tensor:
    """Return the derivative of `bessel_ratio` in x, without the cancellation of 1 - r^2 - (2 order + 1) r/x."""
    return _apply("ratio_slope", order, x)


def ratio_over_x(order: float, x: Tensor) -> Tensor:
    """Return `bessel_ratio` / x, which is smooth at x = 0: 1/(2 order + 2) there. Plain operations of torch."""
    return _by_region(order, x, lambda x, s: debye_ratio_over_x(order, s), lambda x, ladder: ladder[0])


def ratio_ladder(order: float, x: Tensor) -> list[Tensor]:
    """Return r/x for order, order + 1, ... up to the first order of at least 15.

    1/rho_nu = 2 (nu + 1) + x^2 rho_(nu+1) (DLMF 10.29.1), which is stable downwards: every term is positive.
    """
    steps = num_ladder_steps(order)
    top = order + steps
    ladder = [debye_ratio_over_x(top, torch.hypot(x, _like(top, x)))]
    for step in range(steps, 0, -1):
        ladder.append(1 / (2 * (order + step) + x * (x * ladder[-1])))
    return ladder[::-1]


def num_ladder_steps(order: float) -> int:
    """Return how many orders lie between order and the first one at which Debye's expansion serves everywhere."""
    return max(0, math.ceil(debye.SAFE_ORDER - order))


def _like(value: float, x: Tensor) -> Tensor:
    return torch.full((), value, dtype=x.dtype, device=x.device)


def debye_ratio_over_x(order: float, s: Tensor) -> Tensor:
    """Return r/x by s = sqrt(order^2 + x^2), for orders from 15 on or large s."""
    return 1 / (s + order) + debye.correction(order, s, derivative=1)


# --- The two regions -----------------------------------------------------------------------------------------------


def _by_region(
    order: float,
    x: Tensor,
    far: Callable[[Tensor, Tensor], Tensor],
    near: Callable[[Tensor, list[Tensor]], Tensor],
) -> Tensor:
    """Take far(x, s), Debye's form, where it is exact, and near(x, ladder) where it is not."""
    if order >= debye.SAFE_ORDER:
        return far(x, torch.hypot(x, _like(order, x)))
    radius = debye.SAFE_RADIUS[x.dtype]
    edge = math.sqrt(radius**2 - order**2) if order < radius else 0.0
    # Each form sees arguments of its own region only, so neither can overflow.
    outer, inner = x.clamp_min(edge), x.clamp_max(edge)
    outside = far(outer, torch.hypot(outer, _like(order, x)))
    return torch.where(x < edge, near(inner, ratio_ladder(order, inner)), outside)


def _near_log(order: float, x: Tensor, ladder: list[Tensor]) -> Tensor:
    """Log of I_nu(x) Gamma(nu + 1) (2/x)^nu: zero at x = 0 and relatively exact there."""
    steps = len(ladder) - 1
    top = order + steps
    # log I_top, less its value at 0: the difference of Debye's form at s and at s = top, without cancellation.
    total = debye_log_difference(top, _like(top, x), x.square())
    for step in range(1, steps + 1):
        total = total + torch.log1p(x * (x * ladder[step]) / (2 * (order + step)))
    return total


def debye_log_difference(order: float, s: Tensor, d: Tensor) -> Tensor:
    """Return g(b) - g(a), g(x) = log I_order(x) - order log x, for s = sqrt(order^2 + a^2) and d = b^2 - a^2.

    For orders from 15 on. Every term is small where the difference is small, so float32 keeps its digits at any a.
    """
    far = (s.square() + d).sqrt()
    rise = d / (far + s)
    return (
        rise
        - order * torch.log1p(rise / (s + order))
        - 0.5 * torch.log1p(rise / s)
        + (debye.correction(order, far) - debye.correction(order, s))
    )


# --- Values, by name ------------------------------------------------------------------------------------------------


def _log_iv(order: float, x: Tensor) -> Tensor:
    def far(x: Tensor, s: Tensor) -> Tensor:
        return _growth(order, x, s) + _log_width(order, s)

    def near(x: Tensor, ladder: list[Tensor]) -> Tensor:
        return _log_half_power(order, x) + _near_log(order, x, ladder)

    return _by_region(order, x, far, near)


def _log_ive(order: float, x: Tensor) -> Tensor:
    def far(x: Tensor, s: Tensor) -> Tensor:
        if order == 0:
            return _log_width(order, s)
        # log((nu + s)/x), where nu/x would overflow for tiny x.
        log_slant = torch.where(x < 1e-3 * order, torch.log(s + order) - torch.log(x), torch.asinh(order / x))
        return order * (order / (s + x) - log_slant) + _log_width(order, s)

    def near(x: Tensor, ladder: list[Tensor]) -> Tensor:
        return _log_half_power(order, x) - x + _near_log(order, x, ladder)

    return _by_region(order, x, far, near)


def _log_ive_regular(order: float, x: Tensor) -> Tensor:
    def far(x: Tensor, s: Tensor) -> Tensor:
        return order * (order / (s + x) - torch.log(s + order)) + _log_width(order, s)

    def near(x: Tensor, ladder: list[Tensor]) -> Tensor:
        return _near_log(order, x, ladder) - x - (order * math.log(2) + math.lgamma(order + 1))

    return _by_region(order, x, far, near)


def _ratio(order: float, x: Tensor) -> Tensor:
    return x * ratio_over_x(order, x)


def _ratio_minus_one(order: float, x: Tensor) -> Tensor:
    def far(x: Tensor, s: Tensor) -> Tensor:
        return x * debye.correction(order, s, derivative=1) - (order + order * (order / (s + x))) / (s + order)

    return _by_region(order, x, far, lambda x, ladder: x * ladder[0] - 1)


def _log_ive_slope(order: float, x: Tensor) -> Tensor:
    def far(x: Tensor, s: Tensor) -> Tensor:
        return order / x * (order / (s + x)) + x * debye.correction(order, s, derivative=1)

    def near(x: Tensor, ladder: list[Tensor]) -> Tensor:
        return x * ladder[0] - 1 + (order / x if order else 0.0)

    return _by_region(order, x, far, near)


def _ratio_slope(order: float, x: Tensor) -> Tensor:
    def far(x: Tensor, s: Tensor) -> Tensor:
        return order / (s * (s + order)) + debye.correction(order, s, derivative=2)

    def near(x: Tensor, ladder: list[Tensor]) -> Tensor:
        rho, above = ladder[:2]
        return rho * (1 - x.square() * (rho - above))

    return _by_region(order, x, far, near)


def _ratio_curvature(order: float, x: Tensor) -> Tensor:
    def far(x: Tensor, s: Tensor) -> Tensor:
        bend = -order * (2 * s + order) / (s * s.square() * (s + order).square())
        return x * (bend + debye.correction(order, s, derivative=3))

    def near(x: Tensor, ladder: list[Tensor]) -> Tensor:
        # d rho_nu/dx = -x rho_nu (rho_nu - rho_(nu+1)), used twice.
        rho, above = ladder[:2]
        gap, gap_above = rho - above, above - (ladder[2] if len(ladder) > 2 else ratio_over_x(order + 2, x))
        change = -x * (rho * gap - above * gap_above)
        return -x * rho * gap * (1 - x.square() * gap) - rho * x * (2 * gap + x * change)

    return _by_region(order, x, far, near)


def _log_width(order: float, s: Tensor) -> Tensor:
    return debye.correction(order, s) - 0.5 * (torch.log(s) + math.log(2 * math.pi))


def _log_half_power(order: float, x: Tensor) -> Tensor | float:
    """Log of (x/2)^nu / Gamma(nu + 1)."""
    return order * torch.log(x / 2) - math.lgamma(order + 1) if order else 0.0


def _growth(order: float, x: Tensor, s: Tensor) -> Tensor:
    """Return s - nu log((nu + s)/x), exact to rounding also near its zero, where two terms of size nu cancel."""
    if order == 0:
        return x
    root_high, root_low = _scaled_root(order, x.dtype)
    root, s_root = order * _ROOT, order * _SLANT_AT_ROOT
    # The same function as a sum of differences from the root, each of the size of the result.
    offset = (x - root_high) - root_low
    rise = offset * ((x + root) / (s + s_root))
    near = rise + order * (torch.log1p((offset / root).clamp_min(-0.5)) - torch.log1p(rise / (s_root + order)))
    log_slant = torch.log(s + order) - torch.log(x)
    return torch.where((0.5 * root < x) & (x < 2 * root), near, s - order * log_slant)


# sqrt(1 + z^2) = asinh(1/z) at z = _ROOT + _ROOT_REST: in units of nu, where `_growth` changes its sign.
_ROOT, _ROOT_REST = 0.6627434193491816, 8.155323790501267e-18
_SLANT_AT_ROOT = 1.1996786402577337


def _scaled_root(order: float, dtype: torch.dtype) -> tuple[float, float]:
    """Return order * (_ROOT + _ROOT_REST) as a number that dtype can hold, and the rest of it.

    By Dekker's exact product of two floats, in plain arithmetic that torch.compile folds into constants.
    """
    product = order * _ROOT
    order_high, root_high = _leading_bits(order, 26), _leading_bits(_ROOT, 26)
    order_low, root_low = order - order_high, _ROOT - root_high
    lost = ((order_high * root_high - product) + order_high * root_low + order_low * root_high) + order_low * root_low
    high = _leading_bits(product, 24) if dtype == torch.float32 else product
    return high, (product - high) + (lost + order * _ROOT_REST)


def _leading_bits(value: float, bits: int) -> float:
    """Round to the given number of significant bits (Veltkamp's splitting)."""
    scaled = value * (2.0 ** (53 - bits) + 1)
    return scaled - (scaled - value)


# --- Differentiation ------------------------------------------------------------------------------------------------

_VALUES: dict[str, Callable[[float, Tensor], Tensor]] = {
    "log_iv": _log_iv,
    "log_ive": _log_ive,
    "log_ive_regular": _log_ive_regular,
    "log_ive_slope": _log_ive_slope,
    "ratio": _ratio,
    "ratio_minus_one": _ratio_minus_one,
    "ratio_slope": _ratio_slope,
    "ratio_curvature": _ratio_curvature,
}


def _slope(name: str, order: float, x: Tensor) -> Tensor:
    """Return the derivative of the named function as another function that can be differentiated."""
    match name:
        case "log_iv":
            return bessel_ratio(order, x) + order / x if order else bessel_ratio(order, x)
        case "log_ive":
            return _apply("log_ive_slope", order, x)
        case "log_ive_regular":
            return bessel_ratio_minus_one(order, x)
        case "log_ive_slope":
            return bessel_ratio_slope(order, x) - (order / x.square() if order else 0.0)
        case "ratio" | "ratio_minus_one":
            return bessel_ratio_slope(order, x)
        case "ratio_slope":
            return _apply("ratio_curvature", order, x)
    raise RuntimeError(f"the fourth derivative of log I_order is not available (asked for the slope of {name})")


class _Elementwise(torch.autograd.Function):
    """Named function of x with a closed-form derivative, so that autograd keeps x and nothing else."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, order: float, name: str) -> Tensor:
        return _VALUES[name](order, x)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, float, str], output: Tensor) -> None:
        x, ctx.order, ctx.name = inputs
        ctx.save_for_backward(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        (x,) = ctx.saved_tensors
        return grad * _slope(ctx.name, ctx.order, x), None, None


def _apply(name: str, order: float, x: Tensor) -> Tensor:
    if not isinstance(x, Tensor):
        raise TypeError(f"x must be a tensor; got {type(x).__name__}. Wrap it: torch.tensor(x).")
    order = float(order)
    if not 0 <= order < math.inf:
        raise ValueError(f"order must be a finite number of at least 0; got {order}.")
    dtype = x.dtype if x.is_floating_point() else torch.get_default_dtype()
    x = x.to(working_dtype(dtype))
    value: Tensor = _Elementwise.apply(x.masked_fill(x < 0, torch.nan), order, name)  # type: ignore[no-untyped-call]
    return value.to(dtype)


def working_dtype(dtype: torch.dtype) -> torch.dtype:
    """Return the precision to compute in for numbers of a floating dtype: float32 for the half precisions."""
    return dtype if dtype in debye.SAFE_RADIUS else torch.float32
