"""An exponential moving average of the embeddings of each class as its complement (an ablation of the paper)."""

from dataclasses import dataclass

from proco.losses.prototypes import EmaPrototypeLoss
from proco.methods.method import Method, Task, Term
from proco.methods.two_branch import MeanOverViews, TwoBranch


@Method.registry.register("ema_prototype")
@dataclass(frozen=True, kw_only=True)
class EmaPrototype(TwoBranch):
    """Contrast with moving averages of the classes."""

    branch = "ema_prototype"

    momentum: float = 0.99
    """Of the average, which the paper does not give."""

    def representation(self, task: Task) -> Term:
        """Return the mean of the loss over the views."""
        return MeanOverViews(EmaPrototypeLoss(task.class_counts, task.dim, self.temperature, momentum=self.momentum))
