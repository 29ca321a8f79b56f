"""The confusion matrix and the accuracies that follow from it. K classes; accuracies lie in [0, 1]."""

import torch
from torch import Tensor

from proco.losses.batch import checked_labels


def confusion_matrix(predictions: Tensor, labels: Tensor, num_classes: int, *, onto: Tensor | None = None) -> Tensor:
    """Count how often each class (row) was taken for each class (column), (K, K) int64.

    predictions and labels: (N,) whole numbers in [0, K). The matrices of batches and of ranks add up; onto is one to
    count on in, in place, so that many classes need only one matrix. The device is not waited for.

    >>> confusion_matrix(torch.tensor([0, 1, 1]), torch.tensor([0, 0, 1]), 2)
    tensor([[1, 1],
            [0, 1]])
    """
    labels = checked_labels(labels, len(predictions), num_classes)
    predictions = checked_labels(predictions, len(labels), num_classes, name="predictions")
    if onto is None:
        onto = torch.zeros(num_classes, num_classes, dtype=torch.int64, device=labels.device)
    return onto.index_put_((labels.long(), predictions.long()), torch.ones_like(labels).long(), accumulate=True)


def per_class_accuracy(confusion: Tensor) -> Tensor:
    """Return the share of each class's samples that were recognised, (K,); NaN for a class without a sample."""
    return confusion.diagonal().double() / confusion.sum(dim=1)


def top1(confusion: Tensor) -> Tensor:
    """Return the share of all samples that were recognised, a scalar; NaN without a sample."""
    return confusion.diagonal().sum().double() / confusion.sum()


def balanced_accuracy(confusion: Tensor) -> Tensor:
    """Return the mean of the accuracies of the classes that have samples, a scalar; NaN if none has."""
    return per_class_accuracy(confusion).nanmean()
