"""Focal loss (Lin et al., ICCV 2017): -(1 - q)^gamma log q, with q = softmax(s)_y of logits s.

It was made for the many easy regions of object detection. On long-tailed data it stands for weighing by difficulty:
images that are classified well, most of them of frequent classes, count less, whatever their class.

Departures from LDAM's code (Cao et al., NeurIPS 2019), whose settings for long-tailed CIFAR are taken: that code can
also weigh classes, but then computes q from the weighted cross-entropy, so that q is no probability any more. Here
there are no class weights.
"""

from dataclasses import dataclass

from torch import nn

from proco.losses.batch import Reduction
from proco.losses.focal import FocalLoss
from proco.methods.method import Method, Task
from proco.methods.one_branch import OneLoss


@Method.registry.register("focal")
@dataclass(frozen=True, kw_only=True)
class Focal(OneLoss):
    """Cross-entropy in which images that are classified well count less."""

    family = "loss"
    source = "Lin et al., Focal loss for dense object detection, ICCV 2017"
    cost = "one view"

    gamma: float = 1.0
    """How much less: the power of 1 - q. 0 is cross-entropy, 1 what LDAM's code has on long-tailed CIFAR, 2 usual in
    detection."""

    def __post_init__(self) -> None:
        """Refuse a negative or infinite power."""
        super().__post_init__()
        self.require_not_negative("gamma")

    def criterion(self, task: Task, reduction: Reduction = "mean") -> nn.Module:
        """Return the focal loss."""
        return FocalLoss(self.gamma, reduction=reduction)
