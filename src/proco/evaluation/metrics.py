"""All measures of a set of predictions in one pass over it."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from proco.distributed import all_reduce_sum
from proco.evaluation.accuracy import balanced_accuracy, count_hits, per_class_accuracy, top1
from proco.evaluation.calibration import CalibrationBins, expected_calibration_error
from proco.evaluation.shot_groups import group_accuracy, shot_groups
from proco.losses.batch import require_matrix
from proco.losses.class_counts import ClassCounts


@dataclass(frozen=True, kw_only=True)
class Metrics:
    """What a set of predictions is worth. Accuracies are in percent; None is what the data do not define."""

    top1: float | None
    """Share of the samples that were recognised."""
    many: float | None
    """Mean accuracy of the classes with many training samples."""
    medium: float | None
    """Mean accuracy of the classes in between."""
    few: float | None
    """Mean accuracy of the classes with few training samples."""
    balanced_accuracy: float | None
    """Mean accuracy of all classes that have test samples."""
    per_class_accuracy: tuple[float | None, ...]
    """Accuracy of each class; None for a class without a test sample."""
    ece: float | None
    """Expected calibration error, in [0, 1]."""


class Evaluation:
    """Collects the predictions of batches, on every rank its own, and measures them all together.

    class_counts: training samples of each class, (K,), by which classes are grouped; without them the groups have no
    accuracy.

    >>> evaluation = Evaluation(2, class_counts=[500, 5])
    >>> evaluation.update(torch.tensor([[2.0, 0.0], [0.0, 3.0], [1.0, 0.0]]), torch.tensor([0, 0, 1]))
    >>> metrics = evaluation.metrics()
    >>> metrics.many, metrics.medium, metrics.few, metrics.balanced_accuracy
    (50.0, None, 0.0, 25.0)
    """

    def __init__(
        self, num_classes: int, class_counts: ClassCounts | None = None, device: torch.device | str = "cpu"
    ) -> None:
        if class_counts is not None and len(class_counts) != num_classes:
            raise ValueError(f"class_counts must hold {num_classes} numbers, one per class; got {len(class_counts)}.")
        self.num_classes = num_classes
        self.groups = {} if class_counts is None else shot_groups(torch.as_tensor(class_counts).cpu())
        self.hits = torch.zeros(2, num_classes, dtype=torch.int64, device=device)
        self.calibration = CalibrationBins(device=device)

    @torch.no_grad()
    def update(self, logits: Tensor, labels: Tensor) -> None:
        """Take in a batch: logits (N, K), labels (N,) in [0, K). The device is not waited for."""
        require_matrix(logits, self.num_classes, "logits")
        self.hits += count_hits(logits.argmax(dim=1), labels, self.num_classes)
        dtype = torch.promote_types(logits.dtype, torch.float32)
        self.calibration.update(logits.to(dtype).softmax(dim=1), labels)

    def metrics(self) -> Metrics:
        """Measure what has come in so far on all ranks; every rank must call this, and all get the same."""
        hits = all_reduce_sum(self.hits.clone()).cpu()
        calibration = all_reduce_sum(self.calibration.sums.clone()).cpu()
        accuracies = per_class_accuracy(hits)
        groups = {
            name: group_accuracy(accuracies, self.groups[name]) if name in self.groups else None
            for name in ("many", "medium", "few")
        }
        return Metrics(
            top1=_percent(top1(hits).item()),
            **{name: _percent(accuracy) for name, accuracy in groups.items()},
            balanced_accuracy=_percent(balanced_accuracy(hits).item()),
            per_class_accuracy=tuple(_percent(accuracy) for accuracy in accuracies.tolist()),
            ece=_defined(expected_calibration_error(calibration)),
        )


def _defined(number: float | None) -> float | None:
    return None if number is None or math.isnan(number) else number


def _percent(share: float | None) -> float | None:
    share = _defined(share)
    return None if share is None else 100 * share
