"""The mean direction of each class as its complement: ProCo without the spread of the classes (an ablation).

L = -log softmax(mu.z/tau + log pi)_y with mu_j the mean direction of ProCo's statistics: its loss as kappa grows.
"""

from dataclasses import dataclass

from proco.losses.centroid_prototype import CentroidPrototypeLoss
from proco.methods.method import Method, Task, Term
from proco.methods.two_branch import MeanOverViews, TwoBranch


@Method.registry.register("centroid_prototype")
@dataclass(frozen=True, kw_only=True)
class CentroidPrototype(TwoBranch):
    """Contrast with the centroids of the classes."""

    family = "ablation"
    source = "Du et al., T-PAMI 2024, ablation of class complements"

    def representation(self, task: Task) -> Term:
        """Return the mean of the loss over the views."""
        return MeanOverViews(CentroidPrototypeLoss(task.class_counts, task.dim, self.temperature))
