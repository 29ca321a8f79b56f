"""The concentration of a von Mises-Fisher distribution from the length of its mean vector."""

from typing import Literal

import torch
from torch import Tensor

from proco.ranges import require_choice
from proco.sphere.bessel import bessel_ratio, bessel_ratio_slope, working_dtype

ConcentrationMethod = Literal["sra", "exact", "official"]

_NEWTON_STEPS = 4
_LARGEST = 1e18  # whose square float32 still holds


def concentration_from_mean_length(
    mean_length: Tensor, dim: int, method: ConcentrationMethod = "sra", *, max_concentration: float = 1e5
) -> Tensor:
    """Return kappa for vectors on the unit sphere of R^dim whose mean has length R, elementwise.

    "sra": R (p - R^2)/(1 - R^2), the paper's formula; "official": p R/(1 - R^2), the official code's, which is also
    an upper bound of the solution; "exact": the maximum-likelihood solution of A_p(kappa) = R to machine precision,
    differentiable by the implicit function theorem. Domain: R in [0, 1]; R = 0 gives 0, and R so close to 1 (or
    above it by rounding) that kappa would pass max_concentration gives max_concentration.

    >>> concentration_from_mean_length(torch.tensor([0.0, 0.9, 1.0]), dim=128)
    tensor([     0.0000,    602.4788, 100000.0000])
    """
    require_choice(ConcentrationMethod, **{"concentration method": method})
    if dim < 2:
        raise ValueError(f"dim must be at least 2; got {dim}.")
    if not 0 < max_concentration <= _LARGEST:
        raise ValueError(f"max_concentration must be positive and at most {_LARGEST:g}; got {max_concentration}.")
    dtype, mean_length = mean_length.dtype, mean_length.to(working_dtype(mean_length.dtype))
    squared = mean_length.square()
    spread = (1 - squared).clamp_min(torch.finfo(mean_length.dtype).tiny)
    if method == "official":
        kappa = (dim * mean_length / spread).clamp(0, max_concentration)
    else:
        kappa = (mean_length * (dim - squared) / spread).clamp(0, max_concentration)
    if method == "exact":
        kappa = _newton(kappa.detach(), mean_length, dim, max_concentration)
    return kappa.to(dtype)


def _newton(kappa: Tensor, mean_length: Tensor, dim: int, max_concentration: float) -> Tensor:
    """Solve A_p(kappa) = R from a start within a few per cent of the root.

    A_p is concave, so a step from the left never passes the root and one from the right lands left of it; the
    brackets (p - 1) R/(1 - R^2) <= kappa <= p R/(1 - R^2), from the bounds of Amos (1974), keep the first step in
    range.
    """
    order = dim / 2 - 1
    with torch.no_grad():
        upper = concentration_from_mean_length(mean_length, dim, "official", max_concentration=max_concentration)
        lower = upper * ((dim - 1) / dim)
        for _ in range(_NEWTON_STEPS):
            step = (bessel_ratio(order, kappa) - mean_length) / bessel_ratio_slope(order, kappa)
            kappa = (kappa - step).clamp(lower, upper)
        slope = bessel_ratio_slope(order, kappa)
        capped = (upper >= max_concentration) & (
            bessel_ratio(order, torch.full_like(kappa, max_concentration)) <= mean_length
        )
        residual = mean_length - bessel_ratio(order, kappa)
    # Adds nothing to the value but rounding; its derivative in R is 1/A_p'(kappa).
    implicit = kappa + (residual + (mean_length - mean_length.detach())) / slope
    return torch.where(capped, torch.full_like(kappa, max_concentration), implicit.clamp(0, max_concentration))
