"""The normaliser of the von Mises-Fisher distribution, as a logarithm relative to that of another concentration."""

import torch
from torch import Tensor

from proco.sphere.bessel import log_ive_regular


def relative_log_normaliser(concentration: Tensor, dim: int, *, reference: float) -> Tensor:
    """Return log C_p(concentration) - log C_p(reference), C_p(k) = I_(p/2-1)(k) k^(1-p/2) up to a constant, p = dim.

    Elementwise; the derivative is A_p(concentration), the length of the mean. Domain: concentration >= 0, dim >=
    2. Each logarithm has the size of p log p while their difference has that of the concentrations: they are
    subtracted in float64, where the device has it, and rounded to the type of the concentration.

    >>> relative_log_normaliser(torch.tensor([1.0, 16.0, 30.0]), dim=64, reference=16.0)
    tensor([-1.9359,  0.0000,  4.4903])
    """
    if dim < 2:
        raise ValueError(f"dim must be at least 2; got {dim}.")
    has_double = concentration.device.type != "mps"
    kappa = concentration.double() if has_double else concentration.float()
    start = torch.full((), reference, dtype=kappa.dtype, device=kappa.device)
    order = dim / 2 - 1
    gain = (kappa - start) + (log_ive_regular(order, kappa) - log_ive_regular(order, start))
    return gain.to(concentration.dtype)
