"""Whether two runs have the same settings, as far as what is learnt depends on them."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from proco.config import as_settings
from proco.training.settings import EngineConfig, TrainConfig


def settings_that_count(config: TrainConfig, *, looks: bool = True) -> dict[str, Any]:
    """Return the settings without what is said about a run, with what it was made, and by what means.

    looks: whether it counts how often the run is looked at.
    """
    names = (*EngineConfig.rounding, *(EngineConfig.looks if looks else ()))
    counting = {name: getattr(config.engine, name) for name in names}
    return as_settings(replace(config, about="", published={}, made_with={}, engine=EngineConfig(**counting)))


def unlike(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    """Return which settings, or settings within them, are not as wanted, and what they are instead.

    >>> unlike({"epochs": 2, "optim": {"lr": 0.1, "factor": 0.5}}, {"epochs": 3, "optim": {"lr": 0.2, "factor": 0.5}})
    'epochs: 2 there, 3 here; optim.lr: 0.1 there, 0.2 here'
    """
    return "; ".join(_differences(found, wanted, ""))


def _differences(found: Mapping[str, Any], wanted: Mapping[str, Any], prefix: str) -> Iterator[str]:
    for name in dict.fromkeys([*found, *wanted]):
        old, new = found.get(name), wanted.get(name)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            yield from _differences(old, new, f"{prefix}{name}.")
        elif old != new:
            yield f"{prefix}{name}: {old} there, {new} here"
