"""The terms of a classifier: a criterion of its logits on the first view, of one class an image or of two."""

from collections.abc import Callable, Sequence

from torch import Tensor, nn

from proco.losses.batch import WeighsSamples, mean_by_weights
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

    Where the mean of the criterion's losses l is divided by the sum of their weights (`WeighsSamples`), so is this one,
    an image weighing share w(y) + (1 - share) w(other).

    criterion: from logits (N, K) and labels (N,) to losses (N,).
    """

    def __init__(self, criterion: nn.Module) -> None:
        super().__init__()
        self.criterion = criterion

    def forward(self, outputs: Sequence[Outputs], targets: Targets, classifier: nn.Module) -> Tensor:
        """Return the mean loss."""
        criterion = self.criterion
        losses = self._shared(targets, lambda labels: criterion(outputs[0].logits, labels))
        if not isinstance(criterion, WeighsSamples):
            return losses.mean()
        return mean_by_weights(
            losses, self._shared(targets, lambda labels: criterion.sample_weights(labels, losses.dtype))
        )

    @staticmethod
    def _shared(targets: Targets, of: Callable[[Tensor], Tensor]) -> Tensor:
        return targets.share * of(targets.labels) + (1 - targets.share) * of(targets.other_labels)
