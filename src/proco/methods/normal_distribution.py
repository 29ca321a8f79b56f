"""A normal distribution of each class in place of the von Mises-Fisher one (an ablation).

L = -log softmax(g + log pi)_y with g_j = m_j.z/tau + z' S_j z/(2 tau^2), mean and full covariance over ProCo's windows.
The paper does not say whether its covariances are full, nor over what they are taken: ISDA's, which it is after, are
over all of training.
"""

from dataclasses import dataclass

from proco.losses.normal_distribution import NormalDistributionLoss
from proco.methods.covariances import require_room
from proco.methods.method import Method, Task, Term
from proco.methods.two_branch import MeanOverViews, TwoBranch


@Method.registry.register("normal_distribution")
@dataclass(frozen=True, kw_only=True)
class NormalDistribution(TwoBranch):
    """Contrast against infinitely many samples of normal distributions."""

    family = "ablation"
    source = "Du et al., T-PAMI 2024, ablation of class complements"
    cost = "three views, and a covariance of every class"

    def representation(self, task: Task) -> Term:
        """Return the mean of the loss over the views."""
        require_room(len(task.class_counts), task.dim, "dimensions of the embeddings", "set a smaller network.dim")
        return MeanOverViews(NormalDistributionLoss(task.class_counts, task.dim, self.temperature))
