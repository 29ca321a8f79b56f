"""What is written of an epoch, and what of all of them goes into the summary."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from torch import Tensor

from proco.evaluation.metrics import Metrics


def means_of(values: Tensor, names: Sequence[str], weights: Tensor) -> dict[str, Any]:
    """Return the means over the steps of an epoch: of each loss, of their weighted sum, of the accuracy in percent.

    values: (steps, T + 1), the losses and the accuracy; names, weights: of the T losses.
    """
    means = values.double().mean(dim=0)
    return {
        "loss": float(means[:-1] @ weights.double().cpu()),
        "losses": dict(zip(names, means[:-1].tolist(), strict=True)),
        "accuracy": 100 * float(means[-1]),
    }


def scalars_of(metrics: Metrics) -> dict[str, float | None]:
    """Return the metrics that are one number."""
    return {name: value for name, value in asdict(metrics).items() if name != "per_class_accuracy"}


def best_of(records: Sequence[dict[str, Any]], split: str) -> dict[str, Any]:
    """Return the best epoch on a split, the first of equals, among those that were evaluated."""
    curve = [(record[split]["top1"], record["epoch"]) for record in records if split in record]
    best_top1, best_epoch = max(curve, key=lambda point: (point[0], -point[1]))
    return {"best_epoch": best_epoch, "best_top1": best_top1, "best_split": split}
