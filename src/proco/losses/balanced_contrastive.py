"""Balanced contrastive learning, BCL (Zhu et al., CVPR 2022): every class weighs the same in every comparison."""

import torch
from torch import Tensor, nn

from proco.losses.batch import Reduction, checked_labels, reduce, require_matrix, require_unit_length
from proco.losses.contrast_set import contrast_set
from proco.ranges import require_choice, require_positive


class BalancedContrastiveLoss(nn.Module):
    """Supervised contrast in which a rare class is in every batch, by its centre, and weighs as much as the others.

    The anchors z_i are compared with a set of embeddings u_a, those of the batch and one centre of each class. A class
    contributes the mean of its exponentials, and the positives P(i) are the others of the anchor's class:

        L_i = -1/|P(i)| sum_(p in P(i)) (z_i.u_p / tau - log D_i),
        D_i = sum_(a != i) e^(z_i.u_a / tau) / n(i, y_a),

    with n(i, j) the number of members of class j in the set, the centre included and the anchor not.

    validate: also check that vectors have unit length, which costs a synchronisation; not under torch.compile.

    embeddings: (N, p) unit vectors, several views of an image stacked along N; labels: (N,) in [0, K); centres: (K, p)
    unit vectors, as a small network makes them of the classifier's weights. See `SupConLoss` for contrast over ranks.

    >>> embeddings, centres = torch.eye(8)[:3], torch.eye(8)[3:7]  # all similarities 0: D is the number of classes
    >>> loss = BalancedContrastiveLoss()(embeddings, torch.tensor([0, 0, 1]), centres)
    >>> round(loss.exp().item(), 4)
    4.0
    """

    def __init__(self, temperature: float = 0.1, *, reduction: Reduction = "mean", validate: bool = False) -> None:
        super().__init__()
        require_choice(Reduction, reduction=reduction)
        require_positive(temperature=temperature)
        self.temperature = temperature
        self.reduction: Reduction = reduction
        self.validate = validate

    def forward(
        self,
        embeddings: Tensor,
        labels: Tensor,
        centres: Tensor,
        contrast: Tensor | None = None,
        contrast_labels: Tensor | None = None,
        anchor_offset: int | None = None,
    ) -> Tensor:
        """Return the loss of a batch, against the centres and itself, or the centres and contrast (M, p).

        anchor_offset: row of contrast from which on the embeddings stand in it; None if they do not.
        """
        others, other_labels, itself = contrast_set(
            embeddings, labels, contrast, contrast_labels, anchor_offset, validate=self.validate
        )
        require_matrix(centres, embeddings.shape[1], "centres")
        if self.validate and not torch.compiler.is_compiling():
            require_unit_length(centres, "centres")
        num_classes = len(centres)
        labels = checked_labels(labels, len(embeddings), num_classes)
        other_labels = checked_labels(other_labels, len(others), num_classes, name="contrast_labels")

        with torch.autocast(embeddings.device.type, enabled=False):
            dtype = torch.promote_types(embeddings.dtype, torch.float32)
            members = torch.cat([others.to(dtype), centres.to(dtype)])
            member_labels = torch.cat([other_labels, torch.arange(num_classes, device=labels.device)])
            similarity = embeddings.to(dtype) @ members.T / self.temperature
            positive = labels[:, None] == member_labels
            class_sizes = similarity.new_zeros(num_classes).index_add_(
                0, member_labels, similarity.new_ones(len(member_labels))
            )
            sizes = class_sizes[member_labels].expand_as(similarity)
            if itself is not None:
                sizes = sizes - positive.to(dtype)
                itself = torch.cat([itself, itself.new_zeros(len(labels), num_classes)], dim=1)
                positive = positive & ~itself
                similarity = similarity.masked_fill(itself, -torch.inf)
            log_total = (similarity - sizes.log()).logsumexp(dim=1)
            # No anchor is without a positive: its class has a centre.
            attraction = similarity.masked_fill(~positive, 0).sum(dim=1) / positive.sum(dim=1)
            return reduce(log_total - attraction, self.reduction)

    def extra_repr(self) -> str:
        """Return the settings."""
        return f"temperature={self.temperature}, reduction={self.reduction!r}"
