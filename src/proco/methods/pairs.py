"""The term of methods that compare the embeddings of a batch with each other, over all ranks."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from proco.distributed import all_gather_rows, rank, world_size
from proco.losses.supcon import SupConLoss
from proco.methods.method import Targets, Term, embeddings_by_view
from proco.models.network import Outputs


class Pairs(Term):
    """SupCon over all views, every image of them an anchor."""

    def __init__(self, criterion: SupConLoss) -> None:
        super().__init__()
        self.criterion = criterion

    def forward(self, outputs: Sequence[Outputs], targets: Targets, classifier: nn.Module) -> Tensor:
        """Return the criterion's value."""
        loss: Tensor = self.criterion(**paired(outputs, targets.labels)._asdict())
        return loss


class Paired(NamedTuple):
    """What the pairwise losses take, by the names of their arguments."""

    embeddings: Tensor
    labels: Tensor
    contrast: Tensor | None = None
    contrast_labels: Tensor | None = None
    anchor_offset: int | None = None


def paired(outputs: Sequence[Outputs], labels: Tensor) -> Paired:
    """Return the embeddings of all views, each an anchor, to be contrasted with those of all ranks."""
    views = embeddings_by_view(outputs)
    anchors = Paired(torch.cat(views), labels.repeat(len(views)))
    if world_size() == 1:
        return anchors
    return anchors._replace(
        contrast=all_gather_rows(anchors.embeddings),
        contrast_labels=all_gather_rows(anchors.labels),
        anchor_offset=rank() * len(anchors.embeddings),
    )
