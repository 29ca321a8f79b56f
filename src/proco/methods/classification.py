"""The terms of a classifier: a criterion of its logits on the first view, of one class an image or of two."""

from collections.abc import Sequence

from torch import Tensor, nn

from proco.methods.method import Targets, Term
from proco.models.network import Outputs


class Classification(Term):
    """A criterion of (logits, labels) on the first view, the classifier's own."""

    def __init__(self, criterion: nn.Module) -> None:
        super().__init__()
        self.criterion = criterion

    def forward(self, outputs: Sequence[Outputs], targets: Targets, classifier: nn.Module) -> Tensor:
        """Return the criterion's value."""
        loss: Tensor = self.criterion(outputs[0].logits, targets.labels)
        return loss


class SharedClassification(Term):
    """A criterion on the first view, a part of which may show another class: share l(y) + (1 - share) l(other).

    criterion: from logits (N, K) and labels (N,) to losses (N,).
    """

    def __init__(self, criterion: nn.Module) -> None:
        super().__init__()
        self.criterion = criterion

    def forward(self, outputs: Sequence[Outputs], targets: Targets, classifier: nn.Module) -> Tensor:
        """Return the mean loss."""
        own, others = (self.criterion(outputs[0].logits, labels) for labels in (targets.labels, targets.others))
        loss: Tensor = (targets.share * own + (1 - targets.share) * others).mean()
        return loss
