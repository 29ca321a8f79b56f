"""Balanced contrastive learning (Zhu et al., CVPR 2022): a logit-adjusted classifier and class-averaged contrast."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from proco.augment import Auto, Sim, View
from proco.losses.balanced_contrastive import BalancedContrastiveLoss
from proco.losses.logit_adjustment import LogitAdjustedLoss
from proco.methods.method import Classification, Method, Stage, Task, Term, WeightedTerm
from proco.methods.pairs import stacked
from proco.models.heads import Projector
from proco.models.network import Network, Outputs


class BalancedPairs(Term):
    """The BCL loss over the views behind the first; an own projector makes centres of the classifier's weights."""

    def __init__(self, criterion: BalancedContrastiveLoss, centre_projector: Projector) -> None:
        super().__init__()
        self.criterion = criterion
        self.centre_projector = centre_projector

    def forward(self, outputs: Sequence[Outputs], labels: Tensor, network: Network) -> Tensor:
        """Return the criterion's value; its gradient reaches the classifier too."""
        embeddings, all_labels, *gathered = stacked(outputs[1:], labels)
        loss: Tensor = self.criterion(
            embeddings, all_labels, self.centre_projector(network.classifier.weight), *gathered
        )
        return loss


@Method.registry.register("bcl")
@dataclass(frozen=True, kw_only=True)
class Bcl(Method):
    """Contrast within the batch and with a centre of every class, each class weighing the same."""

    needs_projector = True
    least_views = 2

    views: tuple[View, ...] = (Auto(), Sim(), Sim())
    """The first is the classifier's, the others are the projector's."""
    temperature: float = 0.1
    weight: float = 0.3
    """Of the contrastive loss beside the classifier's. 0.3 at twice the learning rate is BCL's own 0.6 beside 2 on
    CIFAR; on large sets it has 0.35."""
    tau: float = 1.0
    """Strength of the logit adjustment of the classifier."""

    def stages(self, task: Task, epochs: int) -> tuple[Stage, ...]:
        """Return the one stage."""
        centre_projector = Projector(task.num_features, hidden=task.hidden, dim=task.dim)
        pairs = BalancedPairs(BalancedContrastiveLoss(self.temperature), centre_projector)
        terms = {
            "logit_adjustment": WeightedTerm(1.0, Classification(LogitAdjustedLoss(task.class_counts, tau=self.tau))),
            "bcl": WeightedTerm(self.weight, pairs),
        }
        return (Stage(epochs=epochs, views=self.views, sampler=self.sampler, terms=terms),)
