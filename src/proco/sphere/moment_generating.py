"""The moment-generating function of the von Mises-Fisher distribution, in logarithms and without cancellation.

E exp(t.Z) = C_p(|kappa mu + t|) / C_p(kappa). Both logarithms have the size of kappa while their difference has the
size of |t|; here only the difference is ever computed. Notation: order = p/2 - 1, u the direction of t, cosine =
mu.u, d = |kappa mu + t|^2 - kappa^2.
"""

from typing import Any

import torch
from torch import Tensor

from proco.sphere.bessel import (
    debye_log_difference,
    debye_ratio_over_x,
    num_ladder_steps,
    ratio_ladder,
    ratio_over_x,
    working_dtype,
)


def log_mgf(concentration: Tensor, cosine: Tensor, length: float, dim: int) -> Tensor:
    """Return log E exp(length u.Z) for Z ~ vMF(mu, concentration) on the unit sphere of R^dim, where mu.u = cosine.

    concentration and cosine broadcast; both get gradients. Domain: concentration >= 0, |cosine| <= 1, any length,
    dim >= 2.

    >>> log_mgf(torch.tensor([100.0, 606.0]), torch.tensor(0.9), length=10.0, dim=128)
    tensor([5.1006, 8.1257])
    """
    if dim < 2:
        raise ValueError(f"dim must be at least 2; got {dim}.")
    dtype = torch.promote_types(concentration.dtype, cosine.dtype)
    working = working_dtype(dtype)
    value: Tensor = _LogMgf.apply(  # type: ignore[no-untyped-call]
        concentration.to(working), cosine.to(working), length, dim / 2 - 1
    )
    return value.to(dtype)


def log_mgf_and_slope(concentration: Tensor, cosine: Tensor, length: float, order: float) -> tuple[Tensor, Tensor]:
    """Return `log_mgf` and its derivative in the cosine.

    The latter is length kappa A_p(kappa~)/kappa~ with kappa~ = |kappa mu + t|. By the order of the Bessel function
    instead of the dimension, and plain: autograd would go through every operation.
    """
    d = _squared_gain(concentration, cosine, length)
    steps = num_ladder_steps(order)
    top = order + steps
    s = torch.hypot(concentration, concentration.new_full((), top))
    value = debye_log_difference(top, s, d)
    if steps == 0:
        rho = debye_ratio_over_x(order, (s.square() + d).sqrt())
    else:
        tilted = _tilted(concentration, d)
        before, after = ratio_ladder(order, concentration), ratio_ladder(order, tilted)
        for step in range(1, steps + 1):
            value = value + torch.log(
                (2 * (order + step) + tilted * (tilted * after[step]))
                / (2 * (order + step) + concentration * (concentration * before[step]))
            )
        rho = after[0]
    return value, length * concentration * rho


def _squared_gain(concentration: Tensor, cosine: Tensor, length: float) -> Tensor:
    # Vectors a little longer than 1, as half precisions have them, must not make |kappa mu + t|^2 negative.
    return torch.maximum((2 * length) * concentration * cosine + length**2, -concentration.square())


def _tilted(concentration: Tensor, d: Tensor) -> Tensor:
    return (concentration.square() + d).sqrt()


class _LogMgf(torch.autograd.Function):
    """Keeps its two inputs and nothing else; the derivatives are closed forms that can be differentiated again."""

    generate_vmap_rule = True

    @staticmethod
    def forward(concentration: Tensor, cosine: Tensor, length: float, order: float) -> Tensor:
        return log_mgf_and_slope(concentration, cosine, length, order)[0]

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, float, float], output: Tensor) -> None:
        concentration, cosine, ctx.length, ctx.order = inputs
        ctx.save_for_backward(concentration, cosine)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
        concentration, cosine = ctx.saved_tensors
        tilted = _tilted(concentration, _squared_gain(concentration, cosine, ctx.length))
        rho = ratio_over_x(ctx.order, tilted)
        to_concentration = to_cosine = None
        if ctx.needs_input_grad[0]:
            mean = concentration * ratio_over_x(ctx.order, concentration)
            to_concentration = (grad * (rho * (concentration + ctx.length * cosine) - mean)).sum_to_size(
                concentration.shape
            )
        if ctx.needs_input_grad[1]:
            to_cosine = (grad * rho * (ctx.length * concentration)).sum_to_size(cosine.shape)
        return to_concentration, to_cosine, None, None
