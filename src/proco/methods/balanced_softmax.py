"""Balanced softmax (Ren et al., NeurIPS 2020): cross-entropy of s + log n, with logits s and class counts n.

It is logit adjustment with tau 1: log n differs from the log priors by a constant, a shift of all logits that changes
neither the loss nor its gradient. It is a method of its own for the settings of its paper.

Departures: the full method of the paper, balanced meta-softmax, also learns how often images are drawn, by a meta
sampler on a frozen backbone. That is not here. The authors' warm-up begins at half of the rate, that of the recipe with
their settings at 0.
"""

from dataclasses import dataclass

from torch import nn

from proco.losses.balanced_softmax import BalancedSoftmaxLoss
from proco.losses.batch import Reduction
from proco.methods.method import Method, Task
from proco.methods.one_branch import OneLoss


@Method.registry.register("balanced_softmax")
@dataclass(frozen=True, kw_only=True)
class BalancedSoftmax(OneLoss):
    """Cross-entropy with the class counts in the softmax: logit adjustment of strength one."""

    family = "loss"
    source = "Ren et al., Balanced meta-softmax for long-tailed visual recognition, NeurIPS 2020"
    cost = "one view"

    def criterion(self, task: Task, reduction: Reduction = "mean") -> nn.Module:
        """Return the cross-entropy of the balanced logits."""
        return BalancedSoftmaxLoss(task.class_counts, reduction=reduction)
