"""Mean, deviation and intervals against numpy, scipy, a linear model and a table of Student's t."""

import numpy as np
import pytest
from scipy import stats
from tools.results.spread import Difference, Scatter, Spread, paired


def test_spread_against_numpy() -> None:
    values = [51.43, 51.56, 51.41, 51.20]
    spread = Spread.of(values)
    assert spread.mean == pytest.approx(np.mean(values))
    assert spread.deviation == pytest.approx(np.std(values, ddof=1))
    assert str(spread) == "51.40 ± 0.15 (4)"


def test_one_seed_has_no_deviation() -> None:
    assert str(Spread.of([51.0])) == "51.00 (1)"


def test_pairs_are_the_seeds_that_both_have() -> None:
    assert paired({0: 11.0, 1: 22.0, 2: 33.0, 7: 0.0}, {2: 30.0, 1: 20.0, 0: 10.0, 5: 99.0}) == [1, 2, 3]
    assert paired({0: 1.0}, {1: 1.0}) == []


def test_interval_of_one_sample_by_hand_and_against_scipy() -> None:
    # t(0.975, 2) = 4.3027 as printed in tables; the deviation is 1.
    difference = Difference.of([[1, 2, 3]], Scatter.pooled([[1, 2, 3]]))
    assert (difference.mean, difference.n) == (2, 3)
    assert difference.interval == pytest.approx((2 - 4.3027 / 3**0.5, 2 + 4.3027 / 3**0.5), abs=1e-4)
    assert difference.includes(0)
    assert not difference.includes(5)
    generator = np.random.default_rng(0)
    first, second = generator.normal(51.5, 0.4, 8), generator.normal(51, 0.4, 8)
    differences = list(first - second)
    interval = stats.ttest_rel(first, second).confidence_interval(0.95)
    assert Difference.of([differences], Scatter.pooled([differences])).interval == pytest.approx(tuple(interval))


def test_pooled_intervals_against_a_linear_model() -> None:
    # Least squares with an own mean for every sample: its residual variance and covariance give all intervals.
    samples = [[0.3, 1.1, 0.7], [2.0, 1.0], [-0.4], [0.0, 0.5, 1.0, 0.2]]
    values = np.concatenate(samples)
    design = np.repeat(np.eye(len(samples)), [len(sample) for sample in samples], axis=0)
    means, squares, *_ = np.linalg.lstsq(design, values, rcond=None)
    freedom = len(values) - len(samples)
    covariance = squares[0] / freedom * np.linalg.inv(design.T @ design)
    scatter = Scatter.pooled(samples)
    assert scatter == pytest.approx((np.sqrt(squares[0] / freedom), freedom))

    def interval(weights: np.ndarray) -> tuple[float, float]:
        half = stats.t.ppf(0.975, freedom) * np.sqrt(weights @ covariance @ weights)
        return weights @ means - half, weights @ means + half

    for sample, weights in zip(samples, np.eye(len(samples)), strict=True):
        assert Difference.of([sample], scatter).interval == pytest.approx(interval(weights))
    single = Difference.of(samples[:1], scatter, beside_single=True).interval
    assert single is not None
    half = stats.t.ppf(0.975, freedom) * np.sqrt(covariance[0, 0] + squares[0] / freedom)
    assert single == pytest.approx((means[0] - half, means[0] + half))
    together = Difference.of(samples, scatter)
    assert together.n == len(values)
    assert together.interval == pytest.approx(interval(np.full(len(samples), 1 / len(samples))))


def test_single_differences_have_no_interval() -> None:
    assert Scatter.pooled([[1.0], [2.0]]) is None
    assert Difference.of([[2.0]], None) == Difference(2.0, None, 1)
    assert Difference.of([[1.0], [2.0]], None) == Difference(1.5, None, 2)
    with pytest.raises(ValueError, match="no interval"):
        Difference.of([[2.0]], None).includes(0)
