"""The effective number of samples (Cui et al., CVPR 2019): how much a class's samples say that others do not."""

import math

import torch
from torch import Tensor

from proco.losses.class_counts import ClassCounts, as_class_counts
from proco.ranges import require_below_one


def effective_numbers(class_counts: Tensor, beta: float) -> Tensor:
    """Return E_j = (1 - beta^n_j) / (1 - beta), shape (K,), of counts n in a floating type.

    From 1 for every class (beta = 0) to n_j (as beta goes to 1). Powers are taken by logarithms, so that their distance
    from 1 keeps its digits whatever beta and the counts.
    """
    require_below_one(beta=beta)
    if beta == 0:
        return torch.ones_like(class_counts)
    return torch.expm1(class_counts * math.log(beta)) / (beta - 1)


def effective_number_weights(class_counts: ClassCounts, beta: float = 0.9999) -> Tensor:
    """Return weights of the classes proportional to 1 / E_j that sum to the number of classes, (K,) in float32.

    beta = 0 weighs all classes alike; towards 1 the weights go to those of inverse frequency.

    >>> effective_number_weights([900, 100], beta=0.0)
    tensor([1., 1.])
    >>> effective_number_weights([900, 100], beta=0.999999)
    tensor([0.2001, 1.7999])
    """
    weights = effective_numbers(as_class_counts(class_counts), beta).reciprocal()
    return weights * (len(weights) / weights.sum())
