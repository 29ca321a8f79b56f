"""The coefficients against the DLMF's own recurrence, in exact fractions."""

from fractions import Fraction

import pytest
import torch

from proco.sphere import debye


def dlmf_polynomials(count: int) -> list[list[Fraction]]:
    """U_0, U_1, ... of DLMF 10.41.9, coefficients of t^0, t^1, ..."""
    found = [[Fraction(1)]]
    for _ in range(count):
        last = found[-1]
        new = [Fraction(0)] * (len(last) + 3)
        for power, c in enumerate(last):
            new[power + 1] += c * power / 2 + c / (8 * (power + 1))
            new[power + 3] += -c * power / 2 - 5 * c / (8 * (power + 3))
        found.append(new)
    return found


def logarithm_of_series(terms: list[list[Fraction]]) -> list[list[Fraction]]:
    """Coefficients of log(1 + sum_k terms_k e^k) in e, by n l_n = n a_n - sum_k k l_k a_(n-k)."""

    def times(left: list[Fraction], right: list[Fraction]) -> list[Fraction]:
        product = [Fraction(0)] * (len(left) + len(right) - 1)
        for i, a in enumerate(left):
            for j, b in enumerate(right):
                product[i + j] += a * b
        return product

    logs: list[list[Fraction]] = [[]]
    for n in range(1, len(terms)):
        total = list(terms[n])
        for k in range(1, n):
            for power, c in enumerate(times(logs[k], terms[n - k])):
                total[power] -= Fraction(k, n) * c
        logs.append(total)
    return logs


def test_value_polynomials_are_the_logarithm_of_the_dlmf_series() -> None:
    logs = logarithm_of_series(dlmf_polynomials(10))
    for k in range(1, 11):
        ours = debye._value_polynomials()[k - 1]
        expected = {power: c for power, c in enumerate(logs[k]) if c}
        assert {k + 2 * m: c for m, c in enumerate(ours) if c} == expected


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_fewer_terms_are_needed_at_higher_orders(dtype: torch.dtype) -> None:
    counts = [debye.num_terms(order, dtype) for order in (15.0, 31.0, 63.0, 511.0, 1e5)]
    assert counts == sorted(counts, reverse=True)
    assert counts[0] > counts[-1] >= 1
