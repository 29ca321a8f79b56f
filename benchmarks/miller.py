"""The paper's own way to I_nu(x), kept as a slow reference: Miller's downward recurrence, scaled by I_0.

It needs a whole order, one step for each order below p, and float64; it loses digits for x above about p^2/25.
"""

import torch
from torch import Tensor


def miller_log_ive(dim: int, x: Tensor) -> Tensor:
    """Return log(I_(p/2-1)(x) exp(-x)) for an even p = dim, starting from I_p = 1, I_(p+1) = 0 as the paper does."""
    if dim % 2:
        raise ValueError(f"Miller's recurrence goes over whole orders: dim must be even; got {dim}.")
    x = x.double()
    above, here = torch.zeros_like(x), torch.ones_like(x)
    log_scale = torch.zeros_like(x)
    wanted = torch.zeros_like(x)
    for order in range(dim, 0, -1):
        above, here = here, 2 * order / x * here + above
        size = here.clamp_min(1)  # keeps the numbers in range
        above, here, log_scale = above / size, here / size, log_scale + size.log()
        if order - 1 == dim // 2 - 1:
            wanted = here.log() + log_scale
    return wanted - (here.log() + log_scale) + torch.special.i0e(x).log()
