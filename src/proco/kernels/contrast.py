"""The contrast of samples with a mixture of von Mises-Fisher distributions, (N, K) scores at a time, in Triton.

In torch's operations the scores are about a hundred passes over an (N, K) matrix; here they are one. The formulas are
those of proco.losses.mixture_contrast and proco.sphere, in float32: d = |kappa mu + t|^2 - kappa^2, s = sqrt(order^2 +
kappa^2), and the same behind the tilt, far = sqrt(s^2 + d).
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from proco.kernels.launch import launch

Rows = tuple[tuple[float, ...], ...]


@triton.jit
def _series(s, order, rows: tl.constexpr):
    """Return sum_k s^-k row_k(v), v = order^2/s^2; rows from the last to the first, highest power first."""
    inverse = 1.0 / s
    v = (order * inverse) * (order * inverse)
    total = tl.zeros_like(s)
    for k in tl.static_range(len(rows)):
        polynomial = tl.zeros_like(s) + rows[k][0]
        for power in tl.static_range(1, len(rows[k])):
            polynomial = polynomial * v + rows[k][power]
        total = (total + polynomial) * inverse
    return total


@triton.jit
def _log1p(x):
    """Return log(1 + x), also for small x: what rounding 1 + x loses is put back by the quotient (Goldberg, 1991)."""
    shifted = 1.0 + x
    lost = tl.where(shifted == 1.0, 1.0, shifted - 1.0)
    return tl.where(shifted == 1.0, x, tl.log(shifted) * (x / lost))


@triton.jit
def _contrast(
    products,
    labels,
    inverse_length,
    concentration,
    log_prior,
    own_pull,
    losses,
    force,
    num_classes,
    length,
    order,
    value_rows: tl.constexpr,
    slope_rows: tl.constexpr,
    has_own_pull: tl.constexpr,
    block: tl.constexpr,
):
    """Write the loss of one sample, and how strongly each class's sum pulls it."""
    sample = tl.program_id(0).to(tl.int64)
    number = tl.arange(0, block)
    inside = number < num_classes
    kappa = tl.load(concentration + number, mask=inside, other=0.0)
    shrink = tl.load(inverse_length + number, mask=inside, other=0.0)
    cosine = tl.load(products + sample * num_classes + number, mask=inside, other=0.0) * shrink
    gain = (2.0 * length) * kappa * cosine + length * length
    d = tl.maximum(gain, -(kappa * kappa), propagate_nan=tl.PropagateNan.ALL)  # so that a diverged run is noticed
    s = tl.sqrt_rn(kappa * kappa + order * order)
    far = tl.sqrt_rn(s * s + d)
    rise = d / (far + s)
    log_moment = rise - order * _log1p(rise / (s + order)) - 0.5 * _log1p(rise / s)
    log_moment += _series(far, order, value_rows) - _series(s, order, value_rows)
    pull = length * kappa * (1.0 / (far + order) + _series(far, order, slope_rows) / far)
    scores = log_moment + tl.load(log_prior + number, mask=inside, other=-float("inf"))
    largest = tl.max(scores, axis=0)
    log_total = largest + tl.log(tl.sum(tl.exp(scores - largest), axis=0))
    is_label = number == tl.load(labels + sample)
    attraction, own = scores, pull
    if has_own_pull:
        own = tl.load(own_pull + number, mask=inside, other=0.0)
        attraction = own * cosine
    tl.store(losses + sample, log_total - tl.sum(tl.where(is_label, attraction, 0.0), axis=0))
    result = tl.exp(scores - log_total) * pull - tl.where(is_label, own, 0.0)
    tl.store(force + sample * num_classes + number, result * shrink, mask=inside)


def losses_and_force(
    products: Tensor,
    labels: Tensor,
    inverse_length: Tensor,
    concentration: Tensor,
    log_prior: Tensor,
    own_pull: Tensor | None,
    *,
    order: float,
    length: float,
    value_rows: Rows,
    slope_rows: Rows,
) -> tuple[Tensor, Tensor]:
    """Return the loss of each sample, (N,), and by how much the sum of each class enters its gradient, (N, K).

    products: of embeddings and sums, (N, K); labels: (N,); the rest (K,), all float32. own_pull: the pull towards the
    label where it is not that of its score ("out"). order: p/2 - 1, from 15 on; length: 1/tau; rows: of Debye's
    series and of its slope.
    """
    num_samples, num_classes = products.shape
    losses, force = torch.empty_like(products[:, 0]), torch.empty_like(products)
    block = triton.next_power_of_2(num_classes)
    launch(
        _contrast,
        (num_samples,),
        products,
        labels,
        inverse_length,
        concentration,
        log_prior,
        inverse_length if own_pull is None else own_pull,
        losses,
        force,
        num_classes,
        length,
        order,
        value_rows,
        slope_rows,
        own_pull is not None,
        block,
        num_warps=max(block // 512, 1),
    )
    return losses, force
