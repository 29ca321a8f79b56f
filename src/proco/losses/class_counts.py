"""Class counts and the priors they stand for: the one thing every long-tailed loss asks for."""

from collections.abc import Sequence
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

ClassCounts = Sequence[int] | Sequence[float] | NDArray[Any] | Tensor


def as_class_counts(class_counts: ClassCounts) -> Tensor:
    """Return the number of training samples of each class as a tensor (K,), or say what is wrong with it.

    Whole numbers or, for a prior known by its frequencies alone, positive reals.
    """
    try:
        counts = torch.as_tensor(class_counts).detach().clone()
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(
            f"class_counts must hold one number per class; got {type(class_counts).__name__} ({error})."
        ) from error
    if counts.dim() != 1 or len(counts) == 0:
        raise ValueError(
            f"class_counts must hold one number per class, shape (K,); got shape {tuple(counts.shape)}. "
            "If these are labels, count them first: class_counts_from_labels(labels, num_classes)."
        )
    if counts.is_complex() or counts.dtype == torch.bool:
        raise ValueError(f"class_counts must be numbers; got {counts.dtype}.")
    counts = counts.float()
    wrong = ~(torch.isfinite(counts) & (counts > 0))
    if wrong.any():
        first = int(wrong.nonzero()[0])
        raise ValueError(
            f"class_counts must be positive: class {first} has {counts[first].item():g} "
            f"({int(wrong.sum())} such of {len(counts)}). A class without a training sample has no prior; leave it out "
            "of the labels or give it a count of 1."
        )
    return counts


def class_counts_from_labels(labels: Sequence[int] | NDArray[Any] | Tensor, num_classes: int | None = None) -> Tensor:
    """Count how often each label occurs, (K,). num_classes: K, by default the largest label + 1.

    >>> class_counts_from_labels([0, 0, 2, 0, 2, 1])
    tensor([3, 1, 2])
    """
    if num_classes is not None and num_classes < 1:
        raise ValueError(f"num_classes must be at least 1; got {num_classes}.")
    try:
        flat = torch.as_tensor(labels).flatten()
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(f"labels must be whole numbers from 0 on; got {type(labels).__name__} ({error}).") from error
    if len(flat) == 0:
        raise ValueError("labels are empty: there is nothing to count.")
    if flat.is_floating_point() or flat.is_complex() or flat.dtype == torch.bool:
        raise ValueError(f"labels must be whole numbers; got {flat.dtype}.")
    flat = flat.long()
    if flat.min() < 0:
        raise ValueError(f"labels must not be negative; got {int(flat.min())}.")
    largest = int(flat.max())
    if num_classes is not None and largest >= num_classes:
        raise ValueError(f"labels must lie in [0, {num_classes - 1}]; got {largest}. Labels start at 0.")
    return torch.bincount(flat, minlength=num_classes or 0)


def log_prior(class_counts: Tensor, dtype: torch.dtype) -> Tensor:
    """Return log pi, pi_j = n_j / sum n, shape (K,)."""
    counts = class_counts.to(dtype)
    return counts.log() - counts.sum().log()
