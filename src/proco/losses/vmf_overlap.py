"""How far the von Mises-Fisher distributions of classes overlap (Wang et al., ECCV 2022): two losses of a classifier.

The overlap of two distributions is 1/(1 + KL), from 1 for equal ones towards 0. From vMF(mu_j, kappa_j) to
vMF(mu_k, kappa_k) the divergence is A_p(kappa_j) (kappa_j - kappa_k mu_j.mu_k) + log C_p(kappa_k) - log C_p(kappa_j),
with A_p the mean length of a sample and C_p the normaliser.

Shapes: K classes, p features; directions (K, p) are unit vectors, concentration (K,) numbers >= 0.
"""

import torch
from torch import Tensor
from torch.nn.functional import normalize

from proco.losses.batch import checked_labels, require_matrix
from proco.sphere.bessel import bessel_ratio
from proco.sphere.normaliser import relative_log_normaliser

_REFERENCE = 16.0  # from which log C_p is counted: it cancels, but keeps the numbers small


def class_overlap(directions: Tensor, concentration: Tensor) -> Tensor:
    """Return 1/(1 + KL(j || k)) of all pairs of classes, (K, K); 1 on the diagonal.

    Cosines are rounded, so that of different classes KL is right to about 1e-7 kappa_k in float32.

    >>> class_overlap(torch.eye(2, 4), torch.tensor([16.0, 16.0]))
    tensor([[1.0000, 0.0644],
            [0.0644, 1.0000]])
    """
    directions, concentration = _checked(directions, concentration)
    dim = directions.shape[1]
    mean_length = bessel_ratio(dim / 2 - 1, concentration)[:, None]
    gain = relative_log_normaliser(concentration, dim, reference=_REFERENCE)
    with torch.autocast(directions.device.type, enabled=False):
        cosines = (directions @ directions.T).masked_fill(_is_diagonal(directions), 1)
    # The parts by concentration and by direction are small where classes are alike: their terms do not cancel.
    by_concentration = gain - gain[:, None] + mean_length * (concentration[:, None] - concentration)
    by_direction = mean_length * concentration * (1 - cosines)
    return 1 / (1 + (by_concentration + by_direction).clamp_min(0))


def inter_class_discrepancy(directions: Tensor, concentration: Tensor) -> Tensor:
    """Return the mean overlap of different classes: the paper's L_icd, which drives them apart. 0 for one class."""
    overlap = class_overlap(directions, concentration)
    pairs = len(overlap) * (len(overlap) - 1)
    return (overlap.sum() - overlap.diagonal().sum()) / max(pairs, 1)


def class_feature_consistency(directions: Tensor, concentration: Tensor, features: Tensor, labels: Tensor) -> Tensor:
    """Return 1 - 1/(1 + A_p(kappa_j) kappa_j (1 - cos(mu_j, v_j))), the mean over the classes of the batch: L_cfc.

    v_j is the mean direction of the features of class j, whose distribution is taken to be as concentrated as the
    classifier's. It pulls both together. features: (N, p), labels: (N,); 0 for an empty batch.
    """
    directions, concentration = _checked(directions, concentration)
    num_classes, dim = directions.shape
    require_matrix(features, dim, "features")
    labels = checked_labels(labels, len(features), num_classes)
    units = normalize(features.to(directions.dtype), dim=1)
    seen = torch.zeros_like(directions).index_add(0, labels, units)
    is_there = torch.zeros_like(concentration).index_add(0, labels, torch.ones_like(units[:, 0])) > 0
    cosines = (normalize(seen, dim=1) * directions).sum(dim=1)
    divergence = bessel_ratio(dim / 2 - 1, concentration) * concentration * (1 - cosines).clamp_min(0)
    losses = torch.where(is_there, divergence / (1 + divergence), 0.0)
    return losses.sum() / is_there.sum().clamp_min(1)


def _is_diagonal(directions: Tensor) -> Tensor:
    return torch.eye(len(directions), dtype=torch.bool, device=directions.device)


def _checked(directions: Tensor, concentration: Tensor) -> tuple[Tensor, Tensor]:
    require_matrix(directions, None, "directions")
    if directions.shape[1] < 2:
        raise ValueError(f"directions must have 2 or more dimensions; got {directions.shape[1]}.")
    if concentration.shape != directions.shape[:1]:
        raise ValueError(
            f"concentration must have shape ({len(directions)},), one number per class; "
            f"got {tuple(concentration.shape)}."
        )
    dtype = torch.promote_types(directions.dtype, torch.float32)
    return directions.to(dtype), concentration.to(dtype)
