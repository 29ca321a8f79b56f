"""Implicit semantic data augmentation (Wang et al., NeurIPS 2019): cross-entropy over all shifts of the features.

Training is as if features were moved by N(0, l S_y), S_y the covariance of the features of their class: the loss is
-log softmax(s')_y with s'_j = s_j + (l/2) (w_j - w_y)' S_y (w_j - w_y). l grows from 0 to `strength` with the epochs.
Prediction is by the logits.

Departures: rows that are not finite do not enter the covariances; over several ranks these are of all. The original is
for evenly filled classes, and so are the settings that its authors publish.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from proco.losses.class_covariances import CovarianceKind
from proco.losses.isda import IsdaLoss
from proco.methods.covariances import require_room
from proco.methods.method import Method, Targets, Task, Term
from proco.methods.one_branch import OneBranch
from proco.models.network import Outputs


class AugmentedClassification(Term):
    """The loss of the first view's logits over all shifts of its features, which grow with the epochs."""

    def __init__(self, criterion: IsdaLoss) -> None:
        super().__init__()
        self.criterion = criterion

    def start_epoch(self, done: float = 0.0) -> None:
        """Set how far features are shifted."""
        super().start_epoch(done)
        self.criterion.grow(done)

    def forward(self, outputs: Sequence[Outputs], targets: Targets, classifier: nn.Module) -> Tensor:
        """Return the criterion's value."""
        view = outputs[0]
        loss: Tensor = self.criterion(view.logits, targets.labels, view.features, classifier.get_parameter("weight"))
        return loss


@Method.registry.register("isda")
@dataclass(frozen=True, kw_only=True)
class Isda(OneBranch):
    """Cross-entropy over all shifts of the features that the spread of their class makes likely."""

    family = "loss"
    source = "Wang et al., Implicit semantic data augmentation for deep networks, NeurIPS 2019"
    cost = "one view, and a covariance of every class"

    strength: float = 0.5
    """How far features are shifted in the end, in covariances of their class; 0 is cross-entropy."""
    covariance: CovarianceKind = "full"
    """Whole covariances, or their diagonals where those do not fit: the former are K d^2 numbers, with K classes and d
    features; the original's are diagonal on ImageNet."""

    def __post_init__(self) -> None:
        """Refuse a negative or infinite strength."""
        super().__post_init__()
        self.require_not_negative("strength")

    def term(self, task: Task) -> Term:
        """Return the loss, of features and the classifier's weights too."""
        num_classes, num_features = len(task.class_counts), task.num_features
        if self.covariance == "full":
            require_room(num_classes, num_features, "features", "set method.covariance=diagonal")
        criterion = IsdaLoss(num_classes, num_features, strength=self.strength, covariance=self.covariance)
        return AugmentedClassification(criterion)

    def classifier(self, num_features: int, num_classes: int) -> nn.Module:
        """Return a linear classifier: of cosines, or of standardised features, the bound would be another."""
        return nn.Linear(num_features, num_classes)
