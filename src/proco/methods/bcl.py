"""Balanced contrastive learning (Zhu et al., CVPR 2022): a logit-adjusted classifier and class-averaged contrast.

L_i = -1/|P(i)| sum_(p in P(i)) (z_i.u_p/tau - log D_i), D_i = sum_(a != i) e^(z_i.u_a/tau) / n(i, y_a): the set u
holds the embeddings of all views but the first and a centre of every class, n(i, j) counts its members of class j,
so that every class weighs the same in D.

Departures: over several ranks the set is that of all of them, where the original contrasts on each GPU alone. There is
no original code for CIFAR: weights of 2 for the classifier and 0.6 for the contrast are those of a reproduction
(sumyeongahn/CUDA_LTR), and it is not sure that the paper's figures were made with them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from proco.losses.balanced_contrastive import BalancedContrastiveLoss
from proco.methods.method import Method, Targets, Task, Term
from proco.methods.pairs import paired
from proco.methods.two_branch import TwoBranch
from proco.models.heads import Projector
from proco.models.network import Outputs


class BalancedPairs(Term):
    """The BCL loss over all views; an own projector makes centres of the classifier's weights."""

    def __init__(self, criterion: BalancedContrastiveLoss, centre_projector: Projector) -> None:
        super().__init__()
        self.criterion = criterion
        self.centre_projector = centre_projector

    def forward(self, outputs: Sequence[Outputs], targets: Targets, classifier: nn.Module) -> Tensor:
        """Return the criterion's value; its gradient reaches the classifier too."""
        centres = self.centre_projector(classifier.get_parameter("weight"))
        loss: Tensor = self.criterion(centres=centres, **paired(outputs, targets.labels)._asdict())
        return loss


@Method.registry.register("bcl")
@dataclass(frozen=True, kw_only=True)
class Bcl(TwoBranch):
    """Contrast within the batch and with a centre of every class, each class weighing the same.

    Without a classifier beside it, centres are made of the classifier's first, random weights: they are then free
    prototypes, one for each class, behind a projector that learns.
    """

    source = "Zhu et al., Balanced contrastive learning for long-tailed visual recognition, CVPR 2022"

    weight: float = 0.3
    """Of the contrastive loss beside the classifier's. 0.3 at twice the learning rate is the reproduction's 0.6 beside
    2 on CIFAR; on large sets the original has 0.35."""

    def representation(self, task: Task) -> Term:
        """Return the loss over all pairs of the views."""
        centre_projector = Projector(task.num_features, hidden=task.hidden, dim=task.dim)
        return BalancedPairs(BalancedContrastiveLoss(self.temperature), centre_projector)
