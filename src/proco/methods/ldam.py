"""LDAM (Cao et al., NeurIPS 2019): cross-entropy of scaled cosines, the label's less a margin of its class.

L = -log softmax(scale (cos - m_y e_y))_y with e_y 1 at the label and 0 elsewhere, and m_j = max_margin
(n_min / n_j)^(1/4). Predictions are by the cosines, without margins.

Departures: the authors' code ends each epoch with a smaller batch; here, as in all methods, images that do not fill a
batch are left for the next epoch's shuffle.
"""

from dataclasses import dataclass

from torch import nn

from proco.losses.batch import Reduction
from proco.losses.ldam import LdamLoss
from proco.methods.method import Method, Task
from proco.methods.one_branch import OneLoss
from proco.models.heads import CosineClassifier


@Method.registry.register("ldam")
@dataclass(frozen=True, kw_only=True)
class Ldam(OneLoss):
    """A cosine classifier that has to win by a margin, the wider the rarer the class."""

    family = "loss"
    source = "Cao et al., Learning imbalanced datasets with label-distribution-aware margin loss, NeurIPS 2019"
    cost = "one view"

    max_margin: float = 0.5
    """Margin of the rarest class, in units of a cosine."""
    scale: float = 30.0
    """What cosines, and their margins, are multiplied by."""

    def __post_init__(self) -> None:
        """Refuse numbers the loss cannot have."""
        super().__post_init__()
        self.require_not_negative("max_margin")
        self.require_positive("scale")

    def criterion(self, task: Task, reduction: Reduction = "mean") -> LdamLoss:
        """Return the cross-entropy with margins."""
        return LdamLoss(task.class_counts, max_margin=self.max_margin, scale=self.scale, reduction=reduction)

    def classifier(self, num_features: int, num_classes: int) -> nn.Module:
        """Return a cosine classifier of the loss's scale."""
        return CosineClassifier(num_features, num_classes, scale=self.scale)
