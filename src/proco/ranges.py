"""Where settings have to lie: numbers between bounds, words among choices. What does not is refused by its name."""

import math
from typing import Any, get_args

from proco.errors import ConfigError


def require_choice(choices: Any, **settings: str) -> None:
    """Refuse settings that are none of the words of a Literal."""
    for name, value in settings.items():
        if value not in get_args(choices):
            raise ConfigError(f"unknown {name} {value!r}; choose from {', '.join(get_args(choices))}.")


def _require_number(name: str, value: object) -> None:
    if isinstance(value, str | list | tuple | dict | None):
        raise TypeError(f"{name} must be a number; got {type(value).__name__}.")


def require_positive(**settings: float) -> None:
    """Refuse settings that are not positive, or infinite."""
    for name, value in settings.items():
        _require_number(name, value)
        if not 0 < value < math.inf:
            raise ConfigError(f"{name} must be positive and finite; got {value:g}.")


def require_not_negative(**settings: float) -> None:
    """Refuse settings that are negative or infinite."""
    for name, value in settings.items():
        _require_number(name, value)
        if not 0 <= value < math.inf:
            raise ConfigError(f"{name} must be finite and not negative; got {value:g}.")


def require_below_one(**settings: float) -> None:
    """Refuse settings below 0, or 1 and more: shares that are never all, and what the past counts in an average."""
    for name, value in settings.items():
        _require_number(name, value)
        if not 0 <= value < 1:
            raise ConfigError(f"{name} must be at least 0 and below 1; got {value:g}.")
