"""Cross-entropy, the baseline: -log softmax(s)_y of logits s, every image weighing the same."""

from dataclasses import dataclass

from torch import nn

from proco.losses.batch import Reduction
from proco.methods.method import Method, Task
from proco.methods.one_branch import OneLoss


@Method.registry.register("cross_entropy")
@dataclass(frozen=True, kw_only=True)
class CrossEntropy(OneLoss):
    """Plain cross-entropy: every image weighs the same, so that classes with many images dominate."""

    family = "loss"
    source = "the baseline of the field; its schedule for long-tailed CIFAR is that of LDAM (Cao et al., NeurIPS 2019)"
    cost = "one view"

    label_smoothing: float = 0.0
    """Share of each label that is spread over all classes."""

    def __post_init__(self) -> None:
        """Refuse a share outside of 0 to 1."""
        super().__post_init__()
        self.require_below_one("label_smoothing")

    def criterion(self, task: Task, reduction: Reduction = "mean") -> nn.Module:
        """Return the cross-entropy."""
        return nn.CrossEntropyLoss(label_smoothing=self.label_smoothing, reduction=reduction)
