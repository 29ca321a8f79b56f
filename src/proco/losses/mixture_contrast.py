"""Contrast of embeddings with a mixture of von Mises-Fisher distributions: the closed form behind ProCoLoss.

Notation: N samples z_i, K classes, p dimensions; pi_j, mu_j, kappa_j are class j's prior, mean direction and
concentration; M_ij = E exp(z_i.Z_j/tau), Z_j ~ vMF(mu_j, kappa_j), the moment-generating function at z_i/tau.

    L_in  = -log(pi_y M_iy)            + log sum_j pi_j M_ij     (the paper's eq. 13)
    L_out = -z_i.A_p(kappa_y) mu_y/tau + log sum_j pi_j M_ij     (eq. 12)
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from proco.kernels.availability import kernels_run_on
from proco.losses.contrast_form import ContrastForm
from proco.sphere import debye
from proco.sphere.bessel import bessel_ratio, num_ladder_steps
from proco.sphere.moment_generating import log_mgf_and_slope

_MOST_CLASSES = 8192  # whose scores one program of the kernel holds


class VmfMixture(NamedTuple):
    """Class distributions as the closed form needs them, all or some of them."""

    sums: Tensor  # (K, p), mu times a length: never normalised, since that would copy it
    inverse_length: Tensor  # (K,)
    concentration: Tensor  # (K,)
    log_prior: Tensor  # (K,)
    order: float  # p/2 - 1
    temperature: float

    def chunks(self, size: int) -> "list[tuple[int, VmfMixture]]":
        """Split by classes; each part comes with the number of its first class."""
        if size >= len(self.sums):
            return [(0, self)]
        return [(start, self._part(start, start + size)) for start in range(0, len(self.sums), size)]

    def _part(self, start: int, stop: int) -> "VmfMixture":
        return self._replace(
            sums=self.sums[start:stop],
            inverse_length=self.inverse_length[start:stop],
            concentration=self.concentration[start:stop],
            log_prior=self.log_prior[start:stop],
        )


class _Scores(NamedTuple):
    """What classes say of samples, (N, K) each; a pull is the derivative of a score in the cosine mu.z."""

    log_weight: Tensor  # log(pi M)
    pull: Tensor
    attraction: Tensor  # the term of the loss that belongs to the label
    own_pull: Tensor


def contrast(embeddings: Tensor, labels: Tensor, mixture: VmfMixture, form: ContrastForm, chunk_size: int) -> Tensor:
    """Return the loss of each sample, (N,); embeddings (N, p) get a gradient, once. labels: (N,) in [0, K)."""
    losses: Tensor = _Contrast.apply(embeddings, labels, *mixture, form, chunk_size)  # type: ignore[no-untyped-call]
    return losses


def _score(embeddings: Tensor, mixture: VmfMixture, form: ContrastForm) -> _Scores:
    cosine = (embeddings @ mixture.sums.T) * mixture.inverse_length
    log_moment, pull = log_mgf_and_slope(mixture.concentration, cosine, 1 / mixture.temperature, mixture.order)
    log_weight = log_moment + mixture.log_prior
    if form == "in":
        return _Scores(log_weight, pull, attraction=log_weight, own_pull=pull)
    mean_pull = _mean_pull(mixture)
    return _Scores(log_weight, pull, attraction=mean_pull * cosine, own_pull=mean_pull.expand_as(cosine))


def _kernel_serves(embeddings: Tensor, mixture: VmfMixture) -> bool:
    """Whether all scores can be computed in one go: on a GPU, in float32, from 32 dimensions on."""
    return (
        embeddings.is_cuda
        and embeddings.dtype == mixture.sums.dtype == torch.float32
        and len(embeddings) > 0
        and len(mixture.sums) <= _MOST_CLASSES
        and num_ladder_steps(mixture.order) == 0
        and kernels_run_on(embeddings.device)
    )


def _by_kernel(embeddings: Tensor, labels: Tensor, mixture: VmfMixture, form: ContrastForm) -> tuple[Tensor, Tensor]:
    """Return losses (N,), and by how much the sum of each class enters their gradients, (N, K)."""
    from proco.kernels.contrast import losses_and_force

    return losses_and_force(
        embeddings @ mixture.sums.T,
        labels,
        mixture.inverse_length,
        mixture.concentration,
        mixture.log_prior,
        _mean_pull(mixture) if form == "out" else None,
        order=mixture.order,
        length=1 / mixture.temperature,
        value_rows=debye.series(mixture.order, torch.float32),
        slope_rows=debye.series(mixture.order, torch.float32, derivative=1),
    )


def _mean_pull(mixture: VmfMixture) -> Tensor:
    """Return the pull towards the mean of each class, (K,), which "out" has for the label."""
    return bessel_ratio(mixture.order, mixture.concentration) / mixture.temperature


class _Contrast(torch.autograd.Function):
    """Losses of the samples, with their gradients formed in the forward pass.

    The gradient is sum_j share_ij pull_ij mu_j - own_i mu_y, share the softmax of the log weights: one more product
    of the size of the scores. Forming it at once means that nothing of size (N, K) or (K, p) is kept for backward, that
    no score is computed twice, and that the statistics may move on before backward.
    """

    @staticmethod
    def forward(ctx: Any, embeddings: Tensor, labels: Tensor, *arguments: Any) -> Tensor:
        *fields, form, chunk_size = arguments
        mixture = VmfMixture(*fields)
        chunks = mixture.chunks(chunk_size)
        if len(chunks) == 1 and _kernel_serves(embeddings, mixture):
            losses, force = _by_kernel(embeddings, labels, mixture, form)
            if ctx.needs_input_grad[0]:
                ctx.save_for_backward(force @ mixture.sums)
            return losses
        log_total = embeddings.new_full((len(embeddings),), -torch.inf)
        attraction, own_pull = torch.zeros_like(log_total), torch.zeros_like(log_total)
        gradient = torch.zeros_like(embeddings)
        for start, part in chunks:
            if start > 0:
                # Zeros made of the last chunk's results keep torch.compile from starting all chunks at once, which
                # would hold all their scores.
                embeddings = embeddings + (gradient + log_total[:, None]).clamp(0, 0)
            scores = _score(embeddings, part, form)
            is_label = labels[:, None] == torch.arange(start, start + len(part.sums), device=labels.device)
            attraction = attraction + torch.where(is_label, scores.attraction, 0.0).sum(dim=1)
            before, log_total = log_total, torch.logaddexp(log_total, scores.log_weight.logsumexp(dim=1))
            if not ctx.needs_input_grad[0]:
                continue
            force = torch.exp(scores.log_weight - log_total[:, None]) * scores.pull
            own = torch.where(is_label, scores.own_pull, 0.0)
            if len(chunks) == 1:
                force = force - own  # before the product, where the two cancel exactly however it is rounded
            else:
                own_pull = own_pull + own.sum(dim=1)
            # The shares of earlier chunks were taken of a smaller total.
            gradient = gradient * torch.exp(before - log_total)[:, None]
            gradient = gradient + (force * part.inverse_length) @ part.sums
        if len(chunks) > 1:
            gradient = gradient - (own_pull * mixture.inverse_length[labels])[:, None] * mixture.sums[labels]
        ctx.save_for_backward(gradient)
        # A zero made of the gradient ties it to the forward pass: torch.compile would move its product into the
        # backward pass, and there read sums that the next view has changed by then.
        return log_total - attraction + gradient[:, 0].clamp(0, 0)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        # Grad mode is on here only when a graph of the gradient is wanted, which would silently lack the gradient's
        # own derivative. (torch.compile refuses second derivatives by itself.)
        if torch.is_grad_enabled() and not torch.compiler.is_compiling():
            raise RuntimeError(
                "ProCoLoss has first derivatives only. For second ones build the loss from "
                "criterion.logits(embeddings), the log prior and torch.nn.functional.cross_entropy."
            )
        (gradient,) = ctx.saved_tensors
        return (grad[:, None] * gradient, *(None,) * (len(ctx.needs_input_grad) - 1))
