"""Class-balanced focal loss (Cui et al., CVPR 2019): -w_y sum_j (1 - q_j)^gamma log q_j.

q_j is the probability, by a sigmoid, of the right answer to "is it class j?"; w_j is proportional to
(1 - beta) / (1 - beta^n_j) and sums to the number of classes. The classifier's bias begins at -log(K - 1) and is not
decayed, so that all classes begin at a probability of 1/K.

Departures from the authors' code, which is written for TensorFlow: weights begin as PyTorch draws them, the shortcuts
of the network take every second pixel where theirs average, and the long-tailed sets have other images. The paper's
figures are the best over beta (0.9, 0.99, 0.999, 0.9999) and gamma (0.5, 1, 2) for each data set; the settings here are
those of its example, which is of CIFAR-10 with imbalance 50. Choose them on images that are left out: with 100 classes
and imbalance 100, beta 0.9999 weighs rare classes 98 times as much as frequent ones, 0.9 only 2.4 times, and six points
lie between the two. The recipe own/cb_focal_100 has been chosen so.
"""

from dataclasses import dataclass

from torch import nn

from proco.losses.batch import Reduction
from proco.losses.class_balanced_focal import ClassBalancedFocalLoss
from proco.methods.method import Method, Task
from proco.methods.one_branch import OneLoss
from proco.models.heads import RareEventClassifier


@Method.registry.register("cb_focal")
@dataclass(frozen=True, kw_only=True)
class CbFocal(OneLoss):
    """A yes-or-no question for each class; hard images count more, and classes by their effective number of samples."""

    family = "loss"
    source = "Cui et al., Class-balanced loss based on effective number of samples, CVPR 2019"
    cost = "one view"

    beta: float = 0.9999
    """How far weights go from equal (0) towards inverse frequency (1)."""
    gamma: float = 1.0
    """How much less answers count that are right already: the power of 1 - q."""

    def __post_init__(self) -> None:
        """Refuse numbers the loss cannot have."""
        super().__post_init__()
        self.require_not_negative("gamma")
        self.require_below_one("beta")

    def criterion(self, task: Task, reduction: Reduction = "mean") -> nn.Module:
        """Return the class-balanced focal loss."""
        return ClassBalancedFocalLoss(task.class_counts, beta=self.beta, gamma=self.gamma, reduction=reduction)

    def classifier(self, num_features: int, num_classes: int) -> nn.Module:
        """Return a linear classifier that begins at the odds."""
        return RareEventClassifier(num_features, num_classes)
