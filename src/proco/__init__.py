"""Probabilistic contrastive learning for long-tailed recognition, on PyTorch.

The names below are imported when they are first used, so that the command line starts without torch.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from proco.losses import BalancedContrastiveLoss as BalancedContrastiveLoss
    from proco.losses import LogitAdjustedLoss as LogitAdjustedLoss
    from proco.losses import ProCoLoss as ProCoLoss
    from proco.losses import SupConLoss as SupConLoss
    from proco.losses import class_counts_from_labels as class_counts_from_labels
    from proco.sphere import ClassMoments as ClassMoments
    from proco.sphere import VonMisesFisher as VonMisesFisher
    from proco.sphere import VonMisesFisherMixture as VonMisesFisherMixture

__version__ = "0.1.0"

_HOME = {
    "BalancedContrastiveLoss": "proco.losses",
    "ClassMoments": "proco.sphere",
    "LogitAdjustedLoss": "proco.losses",
    "ProCoLoss": "proco.losses",
    "SupConLoss": "proco.losses",
    "VonMisesFisher": "proco.sphere",
    "VonMisesFisherMixture": "proco.sphere",
    "class_counts_from_labels": "proco.losses",
}

__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'proco' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
