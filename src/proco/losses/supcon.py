"""Supervised contrastive learning (Khosla et al., NeurIPS 2020), the paper's eqs. 2 and 3."""

import torch
from torch import Tensor

from proco.full_precision import FullPrecisionModule
from proco.losses.batch import Reduction, checked_labels, mean_by_weights, reduce
from proco.losses.class_counts import ClassCounts, as_class_counts, log_prior
from proco.losses.contrast_form import ContrastForm
from proco.losses.contrast_set import contrast_set
from proco.ranges import require_choice, require_positive


class SupConLoss(FullPrecisionModule):
    """Pull each embedding towards the others of its class and away from the rest.

    "out": mean over positives of -log(e^(z.z_p/tau) / sum_a e^(z.z_a/tau)); "in": -log of the mean over positives of
    the same ratio. By Jensen's inequality "in" <= "out". The sums go over the batch without the anchor itself, or
    over `contrast` where it is given. An anchor without a positive has loss 0 and does not count in the mean.

    class_counts: of the training set, for margins between embeddings. Every e^(z.z_a/tau), above and below, is then
    multiplied by the prior pi of the class of z_a, so that those of a rare class have to come closer to each other.

    validate: also check that vectors have unit length, which costs a synchronisation; not under torch.compile.

    embeddings: (N, p) unit vectors, several views of an image stacked along N; labels: (N,), whole numbers, of which
    equal ones are a class, and which lie in [0, K) where there are counts. There is no number for "without a label":
    take such rows out, or give each its own.

    Over several ranks, contrast with the batch of all of them. The mean of the ranks' losses is then that of one
    process, and so are the gradients that DistributedDataParallel averages; anchors that count are counted over all
    ranks, so that every rank has to call the loss:

        criterion(embeddings, labels, all_gather_rows(embeddings), all_gather_rows(labels), rank() * len(embeddings))

    >>> embeddings = torch.nn.functional.normalize(torch.tensor([[1.0, 0.1], [1.0, -0.1], [0.0, 1.0]]), dim=1)
    >>> SupConLoss(temperature=1.0)(embeddings, torch.tensor([0, 0, 1]))
    tensor(0.3196)
    """

    class_counts: Tensor | None

    def __init__(
        self,
        temperature: float = 0.1,
        *,
        form: ContrastForm = "out",
        class_counts: ClassCounts | None = None,
        reduction: Reduction = "mean",
        validate: bool = False,
    ) -> None:
        super().__init__()
        require_choice(ContrastForm, form=form)
        require_choice(Reduction, reduction=reduction)
        require_positive(temperature=temperature)
        self.register_buffer("class_counts", None if class_counts is None else as_class_counts(class_counts))
        self.temperature = temperature
        self.form: ContrastForm = form
        self.reduction: Reduction = reduction
        self.validate = validate

    def forward(
        self,
        embeddings: Tensor,
        labels: Tensor,
        contrast: Tensor | None = None,
        contrast_labels: Tensor | None = None,
        anchor_offset: int | None = None,
    ) -> Tensor:
        """Return the loss of a batch, against itself or against contrast (M, p) with contrast_labels (M,).

        anchor_offset: row of contrast from which on the embeddings stand in it; None if they do not.
        """
        others, other_labels, itself = contrast_set(
            embeddings, labels, contrast, contrast_labels, anchor_offset, validate=self.validate
        )
        if self.class_counts is not None:
            num_classes = len(self.class_counts)
            labels = checked_labels(labels, len(embeddings), num_classes)
            other_labels = checked_labels(other_labels, len(others), num_classes, name="contrast_labels")

        with torch.autocast(embeddings.device.type, enabled=False):
            dtype = torch.promote_types(embeddings.dtype, torch.float32)
            similarity = embeddings.to(dtype) @ others.to(dtype).T / self.temperature
            if self.class_counts is not None:
                similarity = similarity + log_prior(self.class_counts, dtype)[other_labels]
            positive = labels[:, None] == other_labels
            if itself is not None:
                positive = positive & ~itself
                similarity = similarity.masked_fill(itself, -torch.inf)
            num_positives = positive.sum(dim=1)
            has_positive = num_positives > 0
            log_total = similarity.logsumexp(dim=1)
            if self.form == "out":
                attraction = similarity.masked_fill(~positive, 0).sum(dim=1) / num_positives.clamp_min(1)
            else:
                # Of an anchor without positives nothing is left; what is filled has no gradient, so no NaN either.
                attractors = similarity.masked_fill(~positive, -torch.inf)
                attraction = attractors.logsumexp(dim=1) - num_positives.clamp_min(1).to(dtype).log()
            losses = torch.where(has_positive, log_total - attraction, 0.0)
        if self.reduction == "mean":
            return mean_by_weights(losses, has_positive.to(losses.dtype))
        return reduce(losses, self.reduction)

    def extra_repr(self) -> str:
        """Return the settings."""
        margins = "" if self.class_counts is None else f", num_classes={len(self.class_counts)}"
        return f"temperature={self.temperature}, form={self.form!r}, reduction={self.reduction!r}{margins}"
