"""Entries and recipes made up for the tests of the page of results."""

from typing import Any


def entry(recipe: str, seed: int = 0, top1: float = 50.0, **changes: Any) -> dict[str, Any]:
    """Return an entry in the ledger's format; method, weight, batch_size and validation go into its settings."""
    settings = {
        "data": {"validation": changes.pop("validation", None)},
        "method": {"name": changes.pop("method", "proco"), "weight": changes.pop("weight", 1.0)},
        "batch_size": changes.pop("batch_size", 256),
        "seed": seed,
    }
    curve = changes.pop("curve", [top1 / 2, None, top1])
    return {
        "recipe": recipe,
        "epochs": len(curve),
        "seed": seed,
        "top1": top1,
        "many": top1 + 10,
        "medium": top1,
        "few": None,
        "split": "test",
        "balanced_accuracy": top1 - 1,
        "best_top1": top1 + 0.5,
        "mean_last_20": top1 - 0.5,
        "seconds": 90.0,
        "lanes": 1,
        "hardware": "A GPU",
        "torch": "2.13",
        "commit": "0123456789",
        "config": settings,
        "curve": {"split": changes.get("split", "test"), "top1": curve},
        **changes,
    }


def recipe(*, published: dict[str, float] | None = None, **method: Any) -> dict[str, Any]:
    """Return the settings of a recipe."""
    return {
        "published": published or {},
        "data": {"validation": None},
        "method": {"name": "proco", "weight": 1.0, **method},
        "batch_size": 256,
    }
