"""Many-, medium- and few-shot classes: the groups by which long-tailed recognition is reported."""

import torch
from torch import Tensor

from proco.losses.class_counts import ClassCounts

MANY_ABOVE, FEW_BELOW = 100, 20  # the field's bounds


def shot_groups(
    class_counts: ClassCounts, *, many_above: int = MANY_ABOVE, few_below: int = FEW_BELOW
) -> dict[str, Tensor]:
    """Return which classes are "many", "medium" and "few", each as a boolean mask (K,).

    class_counts: training samples of each class, (K,). Many: more than many_above; few: fewer than few_below; medium:
    the others, both bounds included.

    >>> {name: mask.tolist() for name, mask in shot_groups([500, 100, 5]).items()}
    {'many': [True, False, False], 'medium': [False, True, False], 'few': [False, False, True]}
    """
    if few_below > many_above:
        raise ValueError(f"few_below must be at most many_above; got {few_below} and {many_above}.")
    counts = torch.as_tensor(class_counts)
    if counts.dim() != 1:
        raise ValueError(f"class_counts must hold one number per class, shape (K,); got shape {tuple(counts.shape)}.")
    many, few = counts > many_above, counts < few_below
    return {"many": many, "medium": ~many & ~few, "few": few}


def group_accuracy(per_class_accuracy: Tensor, group: Tensor) -> float | None:
    """Return the mean accuracy of a group's classes: per_class_accuracy (K,), group a mask (K,).

    Classes without a test sample (NaN) are left out; the accuracy of a group without any other is None.
    """
    accuracies = per_class_accuracy[group]
    accuracies = accuracies[~accuracies.isnan()]
    return accuracies.mean().item() if len(accuracies) else None


def group_sizes(class_counts: ClassCounts, labels: Tensor) -> dict[str, int]:
    """Return how many of the samples with these labels (N,) are of each group's classes.

    >>> group_sizes([500, 100, 5], torch.tensor([0, 0, 1, 2]))
    {'many': 2, 'medium': 1, 'few': 1}
    """
    groups = shot_groups(torch.as_tensor(class_counts).cpu())
    return {name: int(group[labels.cpu()].sum()) for name, group in groups.items()}
