"""The ProCo loss: supervised contrast against infinitely many samples of every class, in closed form.

Notation: N samples z_i, K classes, p dimensions; pi_j, mu_j, kappa_j are class j's prior, mean direction and
concentration; M_ij = E exp(z_i.Z_j/tau), Z_j ~ vMF(mu_j, kappa_j), the moment-generating function at z_i/tau.

    L_in  = -log(pi_y M_iy)       + log sum_j pi_j M_ij          (eq. 13)
    L_out = -z_i.A_p(kappa_y) mu_y/tau + log sum_j pi_j M_ij     (eq. 12)
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from proco.losses.batch import (
    Reduction,
    can_read_values,
    reduce,
    require_label_range,
    require_reduction,
    require_shapes,
    require_unit_length,
)
from proco.losses.class_counts import ClassCounts, as_class_counts, log_prior
from proco.losses.supcon import ContrastForm, require_form
from proco.sphere.bessel import bessel_ratio
from proco.sphere.concentration import ConcentrationMethod, concentration_from_mean_length
from proco.sphere.moment_generating import log_mgf, log_mgf_and_slope
from proco.sphere.moments import ClassMoments

# An (N, chunk) matrix of this many entries is 32 MiB in float32; a handful of them are alive at once.
_CHUNK_ENTRIES = 2**23


class ProCoLoss(nn.Module):
    """Probabilistic contrastive loss (Du et al., T-PAMI 2024) with class distributions estimated on the fly.

    In training mode each call first takes the batch into the class statistics, then scores it; in evaluation mode it
    only scores. Call it once per view, as the official code does, and `start_epoch` at the beginning of each epoch.
    It has no parameters; its state is in buffers, so save and load it with the model. Over several ranks the
    statistics are summed, no wrapper needed.

    class_counts: training samples of each class, all positive; see `class_counts_from_labels`.
    dim: length p of the embeddings, at least 2.
    form: "in", the paper's choice, or "out".
    concentration: formula for kappa; "official" (default, as in the official code), "sra" (as in the paper) or
    "exact".
    chunk_size: classes handled at once; by default as many as fit 2^23 scores, so memory does not grow with K.
    validate: also check what costs a synchronisation: unit length, and the range of labels on a GPU. Not under
    torch.compile.

    >>> criterion = ProCoLoss(class_counts=[500, 50, 5], dim=16)
    >>> embeddings = torch.nn.functional.normalize(torch.randn(8, 16, requires_grad=True), dim=1)
    >>> loss = criterion(embeddings, torch.tensor([0, 0, 0, 0, 0, 1, 1, 2]))
    >>> loss.backward()
    """

    class_counts: Tensor

    def __init__(
        self,
        class_counts: ClassCounts,
        dim: int = 128,
        temperature: float = 0.1,
        form: ContrastForm = "in",
        *,
        concentration: ConcentrationMethod = "official",
        max_concentration: float = 1e5,
        reduction: Reduction = "mean",
        chunk_size: int | None = None,
        validate: bool = False,
    ) -> None:
        super().__init__()
        require_form(form)
        require_reduction(reduction)
        if not temperature > 0:
            raise ValueError(f"temperature must be positive; got {temperature}.")
        if chunk_size is not None and chunk_size < 1:
            raise ValueError(f"chunk_size must be at least 1; got {chunk_size}.")
        # The formula and dim are checked where they are used: here, once, on nothing.
        concentration_from_mean_length(torch.zeros(0), dim, concentration, max_concentration=max_concentration)
        counts = as_class_counts(class_counts)
        self.register_buffer("class_counts", counts)
        self.moments = ClassMoments(len(counts), dim)
        self.dim = dim
        self.temperature = temperature
        self.form: ContrastForm = form
        self.concentration_method: ConcentrationMethod = concentration
        self.max_concentration = max_concentration
        self.reduction: Reduction = reduction
        self.chunk_size = chunk_size
        self.validate = validate

    @property
    def num_classes(self) -> int:
        """The number K of classes."""
        return len(self.class_counts)

    def start_epoch(self) -> None:
        """Begin an epoch: statistics older than the epoch just ended are forgotten."""
        self.moments.start_epoch()

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """Return the loss of unit embeddings (N, p) with labels (N,): a scalar, or (N,) with reduction="none"."""
        self._check(embeddings, labels)
        with torch.autocast(embeddings.device.type, enabled=False):
            if self.training:
                self.moments.update(embeddings, labels)
            mixture = self._mixture()
            chunk_size = self.chunk_size or max(1024, _CHUNK_ENTRIES // max(len(embeddings), 1))
            losses: Tensor = _Contrast.apply(  # type: ignore[no-untyped-call]
                embeddings.to(mixture.sums.dtype), labels, *mixture, self.form, chunk_size
            )
            return reduce(losses, self.reduction)

    def logits(self, embeddings: Tensor) -> Tensor:
        """Return log M, (N, K): how near each class's distribution is to each embedding, without the prior."""
        require_shapes(embeddings, embeddings.new_empty(len(embeddings), dtype=torch.int64), self.dim, "embeddings")
        with torch.autocast(embeddings.device.type, enabled=False):
            direction = self.moments.mean_direction()
            cosine = embeddings.to(direction.dtype) @ direction.T
            return log_mgf(self.concentration(), cosine, 1 / self.temperature, self.dim)

    def posterior(self, embeddings: Tensor) -> Tensor:
        """Return P(y | z) = pi_y M_y / sum_j pi_j M_j, (N, K); minus its logarithm at the label is L_in."""
        logits = self.logits(embeddings)
        return (logits + log_prior(self.class_counts, logits.dtype)).softmax(dim=1)

    def concentration(self) -> Tensor:
        """Return the concentration kappa of each class as estimated now, (K,); 0 for a class never seen."""
        return self._concentration(self.moments.mean_length())

    def extra_repr(self) -> str:
        """Return the settings."""
        return (
            f"num_classes={self.num_classes}, dim={self.dim}, temperature={self.temperature}, form={self.form!r}, "
            f"concentration={self.concentration_method!r}, reduction={self.reduction!r}"
        )

    def _concentration(self, mean_length: Tensor) -> Tensor:
        return concentration_from_mean_length(
            mean_length, self.dim, self.concentration_method, max_concentration=self.max_concentration
        )

    @torch.no_grad()
    def _mixture(self) -> "_Mixture":
        sums = self.moments.sums
        length = torch.linalg.vector_norm(sums, dim=1)
        return _Mixture(
            sums=sums,
            inverse_length=torch.where(length > 0, length.reciprocal(), 0.0),
            concentration=self._concentration(length / self.moments.counts.clamp_min(1)),
            log_prior=log_prior(self.class_counts, sums.dtype),
            order=self.dim / 2 - 1,
            temperature=self.temperature,
        )

    def _check(self, embeddings: Tensor, labels: Tensor) -> None:
        require_shapes(embeddings, labels, self.dim, "embeddings")
        if torch.compiler.is_compiling():
            return
        if self.validate or can_read_values(labels):
            require_label_range(labels, self.num_classes)
        if self.validate:
            require_unit_length(embeddings)


class _Mixture(NamedTuple):
    """The class distributions as the closed form needs them, all or a chunk of them."""

    sums: Tensor  # (K, p), mu times a length: never normalised, since that would copy it
    inverse_length: Tensor  # (K,)
    concentration: Tensor  # (K,)
    log_prior: Tensor  # (K,)
    order: float
    temperature: float

    def chunks(self, size: int) -> "list[_Chunk]":
        if size >= len(self.sums):
            return [_Chunk(0, self)]
        return [_Chunk(start, self._part(start, start + size)) for start in range(0, len(self.sums), size)]

    def _part(self, start: int, stop: int) -> "_Mixture":
        return self._replace(
            sums=self.sums[start:stop],
            inverse_length=self.inverse_length[start:stop],
            concentration=self.concentration[start:stop],
            log_prior=self.log_prior[start:stop],
        )


class _Chunk(NamedTuple):
    """Classes start, start + 1, ... of a mixture."""

    start: int
    mixture: _Mixture

    def score(self, embeddings: Tensor) -> "_Scores":
        mixture = self.mixture
        cosine = (embeddings @ mixture.sums.T) * mixture.inverse_length
        log_moment, pull = log_mgf_and_slope(mixture.concentration, cosine, 1 / mixture.temperature, mixture.order)
        return _Scores(cosine, log_moment + mixture.log_prior, pull)

    def is_label(self, labels: Tensor) -> Tensor:
        classes = torch.arange(self.start, self.start + len(self.mixture.sums), device=labels.device)
        return labels[:, None] == classes

    def mean_pull(self) -> Tensor:
        """A_p(kappa)/tau, (K,): the attraction of L_out is this times the cosine, z.E[Z]/tau."""
        return bessel_ratio(self.mixture.order, self.mixture.concentration) / self.mixture.temperature


class _Scores(NamedTuple):
    """What a chunk says of the samples, (N, K) each."""

    cosine: Tensor  # mu.z
    log_weight: Tensor  # log(pi M)
    pull: Tensor  # d log M/d cosine


class _Contrast(torch.autograd.Function):
    """Losses of the samples, with their gradients formed in the forward pass.

    The gradient is sum_j share_ij pull_ij mu_j - own_i mu_y, share the softmax of the log weights: one more product
    of the size of the scores. Forming it at once means that nothing of size (N, K) or (K, p) is kept for backward, that
    no score is computed twice, and that the statistics may move on before backward.
    """

    @staticmethod
    def forward(ctx: Any, embeddings: Tensor, labels: Tensor, *arguments: Any) -> Tensor:
        *fields, form, chunk_size = arguments
        mixture = _Mixture(*fields)
        chunks = mixture.chunks(chunk_size)
        log_total = embeddings.new_full((len(embeddings),), -torch.inf)
        target, own_pull = torch.zeros_like(log_total), torch.zeros_like(log_total)
        gradient = after = torch.zeros_like(embeddings)
        for chunk in chunks:
            scores = chunk.score(embeddings if chunk.start == 0 else embeddings + after.clamp(0, 0))
            attraction, own = (
                (scores.log_weight, scores.pull)
                if form == "in"
                else (chunk.mean_pull() * scores.cosine, chunk.mean_pull().expand_as(scores.cosine))
            )
            is_label = chunk.is_label(labels)
            target = target + torch.where(is_label, attraction, 0.0).sum(dim=1)
            before, log_total = log_total, torch.logaddexp(log_total, scores.log_weight.logsumexp(dim=1))
            # Adding zeros made of the last chunk's results to the next one's input keeps torch.compile from
            # starting all chunks at once and holding all their scores.
            after = log_total[:, None]
            if not ctx.needs_input_grad[0]:
                continue
            force = torch.exp(scores.log_weight - log_total[:, None]) * scores.pull
            own = torch.where(is_label, own, 0.0)
            if len(chunks) == 1:
                force = force - own  # before the product, where the two cancel exactly however it is rounded
            else:
                own_pull = own_pull + own.sum(dim=1)
            # Shares of earlier chunks were taken of a smaller total.
            gradient = gradient * torch.exp(before - log_total)[:, None]
            gradient = gradient + (force * chunk.mixture.inverse_length) @ chunk.mixture.sums
            after = gradient
        if len(chunks) > 1:
            gradient = gradient - (own_pull * mixture.inverse_length[labels])[:, None] * mixture.sums[labels]
        ctx.save_for_backward(gradient)
        return log_total - target

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (gradient,) = ctx.saved_tensors
        return (grad[:, None] * gradient, *(None,) * (len(ctx.needs_input_grad) - 1))
