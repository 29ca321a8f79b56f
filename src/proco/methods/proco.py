"""ProCo (Du et al., T-PAMI 2024): a logit-adjusted classifier and the probabilistic contrastive loss, side by side."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from proco.augment import View
from proco.augment.auto import Auto
from proco.augment.sim import Sim
from proco.losses.logit_adjustment import LogitAdjustedLoss
from proco.losses.proco import ProCoLoss
from proco.losses.supcon import ContrastForm
from proco.methods.method import Classification, Method, Stage, Task, Term, WeightedTerm, joint_embeddings
from proco.models.network import Network, Outputs
from proco.sphere.concentration import ConcentrationMethod


class ClassDistributions(Term):
    """The mean of the ProCo loss over the views behind the first, each of which enters the statistics in turn."""

    def __init__(self, criterion: ProCoLoss) -> None:
        super().__init__()
        self.criterion = criterion

    def start_epoch(self) -> None:
        """Let the statistics of the epoch just ended become the estimate."""
        self.criterion.start_epoch()

    def forward(self, outputs: Sequence[Outputs], labels: Tensor, network: Network) -> Tensor:
        """Return the mean loss."""
        return torch.stack([self.criterion(view, labels) for view in joint_embeddings(outputs[1:])]).mean()


@Method.registry.register("proco")
@dataclass(frozen=True, kw_only=True)
class ProCo(Method):
    """Contrast against infinitely many samples of every class, drawn from its von Mises-Fisher distribution."""

    needs_projector = True
    least_views = 2

    views: tuple[View, ...] = (Auto(), Sim(), Sim())
    """The first is the classifier's, the others are the projector's."""
    temperature: float = 0.1
    weight: float = 1.0
    """Of the contrastive loss beside the classifier's: the paper's alpha."""
    form: ContrastForm = "in"
    concentration: ConcentrationMethod = "official"
    tau: float = 1.0
    """Strength of the logit adjustment of the classifier."""

    def stages(self, task: Task, epochs: int) -> tuple[Stage, ...]:
        """Return the one stage."""
        classification = Classification(LogitAdjustedLoss(task.class_counts, tau=self.tau))
        criterion = ProCoLoss(
            task.class_counts, task.dim, self.temperature, self.form, concentration=self.concentration
        )
        terms = {
            "logit_adjustment": WeightedTerm(1.0, classification),
            "proco": WeightedTerm(self.weight, ClassDistributions(criterion)),
        }
        return (Stage(epochs=epochs, views=self.views, sampler=self.sampler, terms=terms),)
