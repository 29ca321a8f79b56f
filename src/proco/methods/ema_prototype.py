"""An exponential moving average of the embeddings of each class as its complement (an ablation of the paper).

L = -log softmax(c.z/tau + log pi)_y with c_j <- normalize(m c_j + (1 - m) mean of the batch's class j).

The paper gives neither m nor code: 0.99 is a choice of this library.
"""

from dataclasses import dataclass

from proco.losses.ema_prototype import EmaPrototypeLoss
from proco.methods.method import Method, Task, Term
from proco.methods.two_branch import MeanOverViews, TwoBranch


@Method.registry.register("ema_prototype")
@dataclass(frozen=True, kw_only=True)
class EmaPrototype(TwoBranch):
    """Contrast with moving averages of the classes."""

    family = "ablation"
    source = "Du et al., T-PAMI 2024, ablation of class complements"

    momentum: float = 0.99
    """Of the average, which the paper does not give."""

    def __post_init__(self) -> None:
        """Refuse an average that does not move."""
        super().__post_init__()
        self.require_below_one("momentum")

    def representation(self, task: Task) -> Term:
        """Return the mean of the loss over the views."""
        return MeanOverViews(EmaPrototypeLoss(task.class_counts, task.dim, self.temperature, momentum=self.momentum))
