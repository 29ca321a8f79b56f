"""Debye's uniform expansion of I_nu(x), arranged in powers of 1/s with s = sqrt(nu^2 + x^2).

The logarithmic derivative w = I_nu'/I_nu solves w' + w^2 + w/x = s^2/x^2. Putting in w = s/x + sum_n x s^-(n+1) G_n(v),
v = nu^2/s^2, and comparing powers of 1/s gives a recurrence for the polynomials G_n in exact fractions. Integrating,

    log I_nu(x) = s - nu log((nu + s)/x) - log(2 pi s)/2 + sum_k s^-k P_k(v),          (DLMF 10.41.3, in logarithms)

whose error depends on s alone: it is as good for order 0 at large x as for order 10^5 at x = 0. No term has a
singularity at x = 0, and no term grows with the order.
"""

from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from typing import Any

import torch
from torch import Tensor

Polynomial = tuple[Fraction, ...]  # coefficients of v^0, v^1, ...

SAFE_ORDER = 15.0
"""From this order on the expansion is exact to rounding for every x >= 0; below it, only for s >= SAFE_RADIUS."""

SAFE_RADIUS = {torch.float32: 10.0, torch.float64: 22.0}
_TERMS_AT_RADIUS = {torch.float32: 8, torch.float64: 14}

_MOST_TERMS = 14
# Truncation error allowed in log I_nu, a fraction of the rounding error of the leading terms.
_TRUNCATION = {torch.float32: 2e-8, torch.float64: 4e-15}


def _plus(*polynomials: Polynomial) -> Polynomial:
    length = max(map(len, polynomials))
    padded = [(*p, *(Fraction(0),) * (length - len(p))) for p in polynomials]
    return tuple(sum(column, Fraction(0)) for column in zip(*padded, strict=True))


def _times(left: Polynomial, right: Polynomial) -> Polynomial:
    product = [Fraction(0)] * (len(left) + len(right) - 1)
    for i, a in enumerate(left):
        for j, b in enumerate(right):
            product[i + j] += a * b
    return tuple(product)


def _of(*coefficients: int) -> Polynomial:
    return tuple(map(Fraction, coefficients))


def _derivative(polynomial: Polynomial) -> Polynomial:
    return tuple(m * c for m, c in enumerate(polynomial))[1:] or _of(0)


# d/dx of the two shapes that occur, by ds/dx = x/s, dv/dx = -2 x v/s^2 and x^2/s^2 = 1 - v.


def _slope_of_odd(power: int, g: Polynomial) -> Polynomial:
    """d/dx [x s^-power g(v)] = s^-power h(v); return h."""
    return _plus(_times(_of(1 - power, power), g), _times(_of(0, -2, 2), _derivative(g)))


def _slope_of_even(power: int, h: Polynomial) -> Polynomial:
    """d/dx [s^-power h(v)] = x s^-(power + 2) g(v); return g."""
    return _plus(_times(_of(-power), h), _times(_of(0, -2), _derivative(h)))


@cache
def _slope_polynomials() -> tuple[Polynomial, ...]:
    """G_1, G_2, ...: I_nu'/I_nu = s/x + sum_n x s^-(n+1) G_n(v)."""
    found: list[Polynomial] = [(Fraction(-1, 2),)]
    for n in range(2, _MOST_TERMS + 2):
        last = found[-1]
        squares = _plus(*(_times(found[j - 1], found[n - j - 1]) for j in range(1, n)))
        bracket = _plus(_slope_of_odd(n, last), last, _times(_of(1, -1), squares))
        found.append(tuple(-c / 2 for c in bracket))
    return tuple(found)


@cache
def _value_polynomials() -> tuple[Polynomial, ...]:
    """P_1, P_2, ...: the integral of the slope term by term; d/dx [s^-k P_k] = x s^-(k+2) G_(k+1)."""
    return tuple(
        tuple(-c / (k + 2 * m) for m, c in enumerate(g)) for k, g in enumerate(_slope_polynomials()[1:], start=1)
    )


def _horner(coefficients: Sequence[float], v: Any) -> Any:
    """Evaluate a polynomial at a number or a tensor, highest power first."""
    total: Any = coefficients[0]
    for c in coefficients[1:]:
        total = total * v + c
    return total


def _largest(k: int, polynomial: Polynomial) -> float:
    """Return the largest |nu^k s^-k P_k(v)| over v, up to the grid of t = sqrt(v)."""
    coefficients = [float(c) for c in reversed(polynomial)]
    return max(abs(t**k * float(_horner(coefficients, t * t))) for t in (i / 32 for i in range(33)))


def _tables() -> tuple[tuple[tuple[float, ...], ...], ...]:
    """For each derivative the rows of the sum over k of s^-k row_k(v), highest power of v first."""
    slopes = _slope_polynomials()
    seconds = tuple(_slope_of_odd(n + 1, g) for n, g in enumerate(slopes, start=1))
    thirds = tuple(_slope_of_even(n + 1, h) for n, h in enumerate(seconds, start=1))
    return tuple(
        tuple(tuple(float(c) for c in reversed(row)) for row in rows)
        for rows in (_value_polynomials(), slopes, seconds, thirds)
    )


# Plain tuples made at import (a few milliseconds), so that torch.compile sees constants.
_TABLES = _tables()
_LARGEST = tuple(_largest(k, polynomial) for k, polynomial in enumerate(_value_polynomials(), start=1))


def num_terms(order: float, dtype: torch.dtype) -> int:
    """Return how many P_k reach the rounding error of dtype, from the size of the first one left out."""
    if order < SAFE_ORDER:  # used for s >= SAFE_RADIUS only, where v may be anything
        return _TERMS_AT_RADIUS[dtype]
    for k, largest in enumerate(_LARGEST[1:], start=2):
        if largest < _TRUNCATION[dtype] * order**k:
            return k - 1
    return _MOST_TERMS


def series(order: float, dtype: torch.dtype, *, derivative: int = 0) -> tuple[tuple[float, ...], ...]:
    """Return the polynomials of `correction` that dtype needs, the last one first, each with its highest power first.

    The k-th of them, counted from the end, stands with s^-k; of a derivative with a further s^-1, of the third s^-3.
    """
    # The table of a derivative begins with that of -log(2 pi s)/2.
    return _TABLES[derivative][: num_terms(order, dtype) + (derivative > 0)][::-1]


_EXTRA_POWERS = (0, 1, 1, 3)


def correction(order: float, s: Tensor, *, derivative: int = 0) -> Tensor:
    """Return the series part of the expansion, or of its derivatives in x, at s = sqrt(order^2 + x^2).

    derivative 0: sum_k s^-k P_k(v), without the -log(2 pi s)/2; 1 and 3: the factor x is left out, so that
    log I' = s/x + x correction(1), log I'' = -nu^2/(s x^2) + correction(2), log I''' = ... + x correction(3);
    all three hold the derivative of -log(2 pi s)/2.
    """
    inverse = s.reciprocal()
    v = (order * inverse).square()
    total: Tensor | float = 0.0
    for row in series(order, s.dtype, derivative=derivative):
        total = (total + _horner(row, v)) * inverse
    for _ in range(_EXTRA_POWERS[derivative]):
        total = total * inverse
    assert isinstance(total, Tensor)
    return total
