"""Logit adjustment (Menon et al., ICLR 2021): L = -log softmax(s + tau log pi)_y, prediction by s.

With tau 1 it is the balanced softmax of Ren et al. (NeurIPS 2020).

Departures: the authors' code adds 1e-12 to pi, so that classes may be empty; here they may not. Its ResNet-32 has
blocks of 1 x 1, 3 x 3 and 1 x 1 convolutions and a batch norm at the end; here it is the ResNet-32 that all methods
use. It counts steps of the schedule, the recipe with its settings epochs; it does not decay batch norms, scales pixels
to between -0.5 and 0.5, and pads with grey. In the common recipe one view passes the batch norms, where contrastive
methods pass three; passing three made no difference (ablation logit_adjustment_views).
"""

from dataclasses import dataclass

from torch import nn

from proco.losses.batch import Reduction
from proco.losses.logit_adjustment import LogitAdjustedLoss
from proco.methods.method import Method, Task
from proco.methods.one_branch import OneLoss


@Method.registry.register("logit_adjustment")
@dataclass(frozen=True, kw_only=True)
class LogitAdjustment(OneLoss):
    """Cross-entropy with the class priors as margins: cheap, and the base of the contrastive methods."""

    family = "loss"
    source = "Menon et al., Long-tail learning via logit adjustment, ICLR 2021"
    cost = "one view"

    tau: float = 1.0
    """Strength of the adjustment: how many log priors are added to the logits in training."""

    def __post_init__(self) -> None:
        """Refuse a negative or infinite strength."""
        super().__post_init__()
        self.require_not_negative("tau")

    def criterion(self, task: Task, reduction: Reduction = "mean") -> nn.Module:
        """Return the adjusted cross-entropy."""
        return LogitAdjustedLoss(task.class_counts, tau=self.tau, reduction=reduction)
