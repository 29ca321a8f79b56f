"""Numbers that lie where they must, and those that do not."""

import math
from collections.abc import Callable
from typing import Literal

import pytest

from proco.errors import ConfigError
from proco.ranges import require_below_one, require_choice, require_not_negative, require_positive


@pytest.mark.parametrize(
    ("check", "fit", "unfit"),
    [
        (require_positive, (1e-30, 1, 1e30), (0.0, -1e-30, math.inf, -math.inf, math.nan)),
        (require_not_negative, (0, 1e-30, 1e30), (-1e-30, math.inf, -math.inf, math.nan)),
        (require_below_one, (0, 0.5, math.nextafter(1, 0)), (-1e-30, 1, 2.0, math.inf, math.nan)),
    ],
)
def test_numbers_are_let_through_or_refused(
    check: Callable[..., None], fit: tuple[float, ...], unfit: tuple[float, ...]
) -> None:
    for value in fit:
        check(some=value, other=value)
    for value in unfit:
        for settings in ({"some": value, "other": fit[0]}, {"other": fit[0], "some": value}):
            with pytest.raises(ConfigError, match=rf"^some must be .*; got {value:g}\.$"):
                check(**settings)


def test_the_sentence_says_where_the_number_has_to_lie() -> None:
    with pytest.raises(ValueError, match=r"^optim\.lr must be positive and finite; got -0\.1\.$"):
        require_positive(**{"optim.lr": -0.1})
    with pytest.raises(ValueError, match=r"^tau must be finite and not negative; got nan\.$"):
        require_not_negative(tau=math.nan)
    with pytest.raises(ValueError, match=r"^beta must be at least 0 and below 1; got 1\.$"):
        require_below_one(beta=1)


def test_words_are_among_the_choices() -> None:
    colours = Literal["red", "blue"]
    require_choice(colours, colour="red", other="blue")
    with pytest.raises(ConfigError, match=r"^unknown other 'green'; choose from red, blue\.$"):
        require_choice(colours, colour="red", other="green")


@pytest.mark.parametrize("check", [require_positive, require_not_negative, require_below_one])
@pytest.mark.parametrize("value", ["0.1", [0.1], None])
def test_what_is_no_number_is_named(check: Callable[..., None], value: object) -> None:
    with pytest.raises(TypeError, match=rf"^temperature must be a number; got {type(value).__name__}\.$"):
        check(temperature=value)
