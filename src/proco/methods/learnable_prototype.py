"""A learnt vector of each class as its complement: a cosine classifier on the projector (an ablation).

L = -log softmax(w.z/tau)_y with unit vectors w_j that are parameters. The paper does not say whether they are free, as
here, or made of the classifier's weights.
"""

from dataclasses import dataclass

from proco.losses.learnable_prototype import LearnablePrototypeLoss
from proco.methods.method import Method, Task, Term
from proco.methods.two_branch import MeanOverViews, TwoBranch


@Method.registry.register("learnable_prototype")
@dataclass(frozen=True, kw_only=True)
class LearnablePrototype(TwoBranch):
    """Contrast with vectors that are learnt, without a prior."""

    family = "ablation"
    source = "Du et al., T-PAMI 2024, ablation CC"

    def representation(self, task: Task) -> Term:
        """Return the mean of the loss over the views."""
        return MeanOverViews(LearnablePrototypeLoss(task.class_counts, task.dim, self.temperature, prior=False))
