"""A normal distribution of each class in place of the von Mises-Fisher one (an ablation)."""

from dataclasses import dataclass

from proco.losses.prototypes import NormalDistributionLoss
from proco.methods.method import Method, Task, Term
from proco.methods.two_branch import MeanOverViews, TwoBranch


@Method.registry.register("normal_distribution")
@dataclass(frozen=True, kw_only=True)
class NormalDistribution(TwoBranch):
    """Contrast against infinitely many samples of normal distributions."""

    branch = "normal_distribution"

    def representation(self, task: Task) -> Term:
        """Return the mean of the loss over the views."""
        return MeanOverViews(NormalDistributionLoss(task.class_counts, task.dim, self.temperature))
