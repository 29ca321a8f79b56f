"""A covariance of every class: whether so many numbers have room."""

from proco.errors import ConfigError

_MOST_NUMBERS = 10**9  # 4 GB in float32, some of which are there several times


def require_room(num_classes: int, size: int, of: str, remedy: str) -> None:
    """Refuse covariances of so many classes and numbers of what they are of; remedy: what to set instead."""
    numbers = num_classes * size**2
    if numbers > _MOST_NUMBERS:
        raise ConfigError(
            f"covariances of {num_classes} classes and {size} {of} are {numbers:.2g} numbers, and several copies of "
            f"them are needed: {remedy}."
        )
