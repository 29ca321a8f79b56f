"""A learnt vector of each class as its complement: a cosine classifier on the projector (an ablation)."""

from dataclasses import dataclass

from proco.losses.prototypes import LearnablePrototypeLoss
from proco.methods.method import Method, Task, Term
from proco.methods.two_branch import MeanOverViews, TwoBranch


@Method.registry.register("learnable_prototype")
@dataclass(frozen=True, kw_only=True)
class LearnablePrototype(TwoBranch):
    """Contrast with vectors that are learnt, without a prior."""

    branch = "learnable_prototype"

    def representation(self, task: Task) -> Term:
        """Return the mean of the loss over the views."""
        return MeanOverViews(LearnablePrototypeLoss(task.class_counts, task.dim, self.temperature, prior=False))
