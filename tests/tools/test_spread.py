"""Mean, deviation and paired interval against numpy, scipy and a table of Student's t."""

import numpy as np
import pytest
from scipy import stats
from tools.results.spread import Difference, Spread


def test_spread_against_numpy() -> None:
    values = [51.43, 51.56, 51.41, 51.20]
    spread = Spread.of(values)
    assert spread.mean == pytest.approx(np.mean(values))
    assert spread.deviation == pytest.approx(np.std(values, ddof=1))
    assert str(spread) == "51.40 ± 0.15 (4)"


def test_one_seed_has_no_deviation() -> None:
    assert str(Spread.of([51.0])) == "51.00 (1)"


def test_paired_difference_by_hand() -> None:
    # Differences 1, 2, 3 for the seeds both have; t(0.975, 2) = 4.3027 as printed in tables; the deviation is 1.
    difference = Difference.paired({0: 11.0, 1: 22.0, 2: 33.0, 7: 0.0}, {2: 30.0, 1: 20.0, 0: 10.0, 5: 99.0})
    assert difference is not None
    assert difference.n == 3
    assert difference.mean == pytest.approx(2)
    assert difference.interval == pytest.approx((2 - 4.3027 / 3**0.5, 2 + 4.3027 / 3**0.5), abs=1e-4)
    assert difference.includes(0)
    assert not difference.includes(5)


def test_paired_interval_against_scipy() -> None:
    generator = np.random.default_rng(0)
    first, second = generator.normal(51.5, 0.4, 8), generator.normal(51, 0.4, 8)
    difference = Difference.paired(dict(enumerate(first)), dict(enumerate(second)))
    assert difference is not None
    assert difference.interval == pytest.approx(tuple(stats.ttest_rel(first, second).confidence_interval(0.95)))


def test_seeds_that_are_not_shared_give_no_difference() -> None:
    assert Difference.paired({0: 1.0}, {1: 1.0}) is None
    assert Difference.paired({}, {1: 1.0}) is None


def test_one_shared_seed_gives_no_interval() -> None:
    difference = Difference.paired({0: 3.0, 1: 1.0}, {0: 1.0})
    assert difference == Difference(2.0, None, 1)
    with pytest.raises(ValueError, match="one seed"):
        difference.includes(0)
