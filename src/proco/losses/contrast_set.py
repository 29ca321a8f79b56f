"""What the anchors of a pairwise contrastive loss are compared with: each other, others, or the batch of all ranks."""

from typing import NamedTuple

import torch
from torch import Tensor

from proco.losses.batch import require_labels, require_matrix, require_unit_length


class ContrastSet(NamedTuple):
    """M embeddings for N anchors."""

    embeddings: Tensor
    """(M, p)."""
    labels: Tensor
    """(M,)."""
    itself: Tensor | None
    """(N, M), true where a column is the anchor itself; None where the anchors are not in the set."""


def contrast_set(
    anchors: Tensor,
    labels: Tensor,
    contrast: Tensor | None = None,
    contrast_labels: Tensor | None = None,
    anchor_offset: int | None = None,
    *,
    validate: bool = False,
) -> ContrastSet:
    """Return the set that anchors (N, p) with labels (N,) are compared with, after checking all shapes.

    Without contrast it is the anchors. Otherwise it is contrast (M, p) with contrast_labels (M,). Where that set holds
    the anchors too, they stand in rows anchor_offset ... anchor_offset + N - 1, so that none is compared with itself.

    validate: also check that all have unit length, which costs a synchronisation; not under torch.compile.
    """
    require_matrix(anchors, None, "embeddings")
    require_labels(labels, len(anchors))
    if contrast is None or contrast_labels is None:
        if contrast is not contrast_labels:
            raise ValueError("contrast and contrast_labels go together; only one was given.")
        if anchor_offset is not None:
            raise ValueError("anchor_offset is a row of contrast, which was not given.")
        contrast, contrast_labels, anchor_offset = anchors, labels, 0
    require_matrix(contrast, anchors.shape[1], "contrast")
    require_labels(contrast_labels, len(contrast), "contrast_labels")
    if validate and not torch.compiler.is_compiling():
        require_unit_length(anchors)
        if contrast is not anchors:
            require_unit_length(contrast, "contrast")
    if anchor_offset is None:
        return ContrastSet(contrast, contrast_labels, None)
    if anchor_offset < 0 or anchor_offset + len(anchors) > len(contrast):
        raise ValueError(
            f"{len(anchors)} anchors from row {anchor_offset} on are not within the {len(contrast)} rows of contrast. "
            "Over ranks, anchor_offset is rank() * len(embeddings)."
        )
    rows = torch.arange(len(anchors), device=anchors.device) + anchor_offset
    return ContrastSet(contrast, contrast_labels, rows[:, None] == torch.arange(len(contrast), device=anchors.device))
