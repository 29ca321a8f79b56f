"""How many samples of each class were recognised, and the accuracies that follow. K classes; they lie in [0, 1]."""

import torch
from torch import Tensor

from proco.losses.batch import checked_labels


def count_hits(predictions: Tensor, labels: Tensor, num_classes: int) -> Tensor:
    """Count the samples of each class and those of them that were recognised, (2, K) int64.

    predictions and labels: (N,) whole numbers in [0, K). The counts of batches and of ranks add up. The device is not
    waited for.

    >>> count_hits(torch.tensor([0, 1, 1]), torch.tensor([0, 0, 1]), 2)
    tensor([[2, 1],
            [1, 1]])
    """
    labels = checked_labels(labels, len(predictions), num_classes)
    predictions = checked_labels(predictions, len(labels), num_classes, name="predictions")
    rows = torch.stack([torch.ones_like(labels), (predictions == labels).to(labels.dtype)]).long()
    return rows.new_zeros(2, num_classes).index_add_(1, labels, rows)


def per_class_accuracy(hits: Tensor) -> Tensor:
    """Return the share of each class's samples that were recognised, (K,); NaN for a class without a sample."""
    return hits[1].double() / hits[0]


def top1(hits: Tensor) -> Tensor:
    """Return the share of all samples that were recognised, a scalar; NaN without a sample."""
    return per_class_accuracy(hits.sum(dim=1, keepdim=True)).squeeze()


def balanced_accuracy(hits: Tensor) -> Tensor:
    """Return the mean of the accuracies of the classes that have samples, a scalar; NaN if none has."""
    return per_class_accuracy(hits).nanmean()
