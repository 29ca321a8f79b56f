"""The ProCo loss (Du et al., T-PAMI 2024): supervised contrast against infinitely many samples of every class.

Embeddings z of a class j are taken to be distributed as Z_j ~ vMF(mu_j, kappa_j). What a sample of the class adds to
the contrast then has a mean in closed form,

    M_j(z) = E e^(z.Z_j/tau) = C_p(|kappa_j mu_j + z/tau|) / C_p(kappa_j),

with C_p the normaliser, by which a density is divided, and with class priors pi the two forms of the loss are

    L_in  = -log(pi_y M_y / sum_j pi_j M_j),
    L_out = -A_p(kappa_y) mu_y.z/tau + log sum_j pi_j M_j,

where A_p(kappa) is the length of the mean of the distribution: A_p(kappa_j) mu_j is the mean of the class's embeddings,
exactly with the exact kappa and, at p = 128, to 1e-3 with the official code's.
"""

import torch
from torch import Tensor

from proco.full_precision import FullPrecisionModule
from proco.losses.batch import (
    Reduction,
    checked_labels,
    reduce,
    require_matrix,
    require_unit_length,
)
from proco.losses.class_counts import ClassCounts, as_class_counts, log_prior
from proco.losses.contrast_form import ContrastForm
from proco.losses.mixture_contrast import VmfMixture, contrast
from proco.ranges import require_choice, require_positive
from proco.sphere.concentration import ConcentrationMethod, concentration_from_mean_length
from proco.sphere.moment_generating import log_mgf
from proco.sphere.moments import ClassMoments

# An (N, chunk) matrix of this many entries is 32 MiB in float32; a handful of them are alive at once.
_CHUNK_ENTRIES = 2**23


class ProCoLoss(FullPrecisionModule):
    """Probabilistic contrastive loss (Du et al., T-PAMI 2024) with class distributions estimated on the fly.

    In training mode each call first takes the batch into the class statistics, then scores it; in evaluation mode it
    only scores. Call it once per view, as the official code does, and `start_epoch` at the beginning of each epoch.
    It has no parameters; its state is in buffers, so save and load it with the model. Over several ranks the
    statistics are summed, no wrapper needed.

    class_counts: training samples of each class, all positive; see `class_counts_from_labels`.
    dim: length p of the embeddings, at least 2.
    temperature: tau, what inner products are divided by.
    form: "in", the paper's choice, or "out".
    past_epochs: previous epochs that the distributions are estimated from, beside the one at hand.
    concentration: formula for kappa, "official" (as in the official code), "sra" (as in the paper) or "exact".
    max_concentration: largest kappa, of classes whose embeddings all but coincide.
    chunk_size: classes handled at once; by default as many as make 2^23 scores, so that K costs no more memory than
        its statistics.
    validate: also check what costs a synchronisation, unit length and, on a GPU, the range of labels; not under
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
        past_epochs: int = 1,
        concentration: ConcentrationMethod = "official",
        max_concentration: float = 1e5,
        reduction: Reduction = "mean",
        chunk_size: int | None = None,
        validate: bool = False,
    ) -> None:
        super().__init__()
        require_choice(ContrastForm, form=form)
        require_choice(Reduction, reduction=reduction)
        require_positive(temperature=temperature)
        if chunk_size is not None and chunk_size < 1:
            raise ValueError(f"chunk_size must be at least 1; got {chunk_size}.")
        # The formula and dim are checked where they are used: here, once, on nothing.
        concentration_from_mean_length(torch.zeros(0), dim, concentration, max_concentration=max_concentration)
        counts = as_class_counts(class_counts)
        self.register_buffer("class_counts", counts)
        self.moments = ClassMoments(len(counts), dim, past_epochs).to(counts.device)
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
        """Begin an epoch: statistics older than past_epochs, by default than the epoch just ended, are forgotten."""
        self.moments.start_epoch()

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """Return the loss of unit embeddings (N, p) with labels (N,): a scalar, or (N,) with reduction="none"."""
        self._check_embeddings(embeddings)
        labels = checked_labels(labels, len(embeddings), self.num_classes, validate=self.validate)
        with torch.autocast(embeddings.device.type, enabled=False):
            if self.training:
                self.moments.update(embeddings, labels)
            mixture = self._mixture()
            chunk_size = self.chunk_size or max(1, _CHUNK_ENTRIES // max(len(embeddings), 1))
            losses = contrast(embeddings.to(mixture.sums.dtype), labels, mixture, self.form, chunk_size)
            if not self.training:  # where no statistics have refused labels that are too large
                losses = losses.masked_fill(labels >= self.num_classes, torch.nan)
            return reduce(losses, self.reduction)

    def logits(self, embeddings: Tensor) -> Tensor:
        """Return log M, (N, K): how near each class's distribution is to each embedding, without the prior."""
        self._check_embeddings(embeddings)
        with torch.autocast(embeddings.device.type, enabled=False):
            direction = self.moments.mean_direction()
            cosine = embeddings.to(direction.dtype) @ direction.T
            return log_mgf(self.concentration(), cosine, 1 / self.temperature, self.dim)

    def posterior(self, embeddings: Tensor) -> Tensor:
        """Return P(y | z) = pi_y M_y / sum_j pi_j M_j, (N, K); minus its logarithm at the label is L_in."""
        logits = self.logits(embeddings)
        return (logits + log_prior(self.class_counts, logits.dtype)).softmax(dim=1)

    def concentration(self, mean_length: Tensor | None = None) -> Tensor:
        """Return the concentration kappa of each class as estimated now, (K,); 0 for a class never seen.

        With mean_length, that of distributions whose embeddings have means of these lengths, in its shape.
        """
        return concentration_from_mean_length(
            self.moments.mean_length() if mean_length is None else mean_length,
            self.dim,
            self.concentration_method,
            max_concentration=self.max_concentration,
        )

    def extra_repr(self) -> str:
        """Return the settings."""
        return (
            f"num_classes={self.num_classes}, dim={self.dim}, temperature={self.temperature}, form={self.form!r}, "
            f"concentration={self.concentration_method!r}, reduction={self.reduction!r}"
        )

    @torch.no_grad()
    def _mixture(self) -> VmfMixture:
        sums = self.moments.sums
        length = torch.linalg.vector_norm(sums, dim=1)
        return VmfMixture(
            sums=sums,
            inverse_length=torch.where(length > 0, length.reciprocal(), 0.0),
            concentration=self.concentration(),
            log_prior=log_prior(self.class_counts, sums.dtype),
            order=self.dim / 2 - 1,
            temperature=self.temperature,
        )

    def _check_embeddings(self, embeddings: Tensor) -> None:
        require_matrix(embeddings, self.dim, "embeddings")
        if self.validate and not torch.compiler.is_compiling():
            require_unit_length(embeddings)
