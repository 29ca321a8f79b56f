"""The term of methods that compare the embeddings of a batch with each other, over all ranks."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from proco.distributed import all_gather_rows, rank, world_size
from proco.losses.supcon import SupConLoss
from proco.methods.method import Targets, Term, joint_embeddings
from proco.models.network import Outputs


class Pairs(Term):
    """SupCon over all views, every image of them an anchor."""

    def __init__(self, criterion: SupConLoss) -> None:
        super().__init__()
        self.criterion = criterion

    def forward(self, outputs: Sequence[Outputs], targets: Targets, classifier: nn.Module) -> Tensor:
        """Return the criterion's value."""
        loss: Tensor = self.criterion(*stacked(outputs, targets.labels))
        return loss


def stacked(outputs: Sequence[Outputs], labels: Tensor) -> tuple[Tensor | int, ...]:
    """Return embeddings and labels of all views as the pairwise losses take them: over ranks with the others' too."""
    views = joint_embeddings(outputs)
    embeddings, all_labels = torch.cat(views), labels.repeat(len(views))
    if world_size() == 1:
        return embeddings, all_labels
    return embeddings, all_labels, all_gather_rows(embeddings), all_gather_rows(all_labels), rank() * len(embeddings)
