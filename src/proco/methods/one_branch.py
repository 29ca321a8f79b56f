"""What methods of one classifier and one term share; such a method stands alone, or beside a representation's term."""

from abc import abstractmethod
from dataclasses import dataclass

from torch import nn

from proco.losses.batch import Reduction
from proco.methods.classification import Classification
from proco.methods.method import Method, Stage, Task, Term, WeightedTerm


@dataclass(frozen=True, kw_only=True)
class OneBranch(Method):
    """A classifier on the first view, trained by one term."""

    @abstractmethod
    def term(self, task: Task) -> Term:
        """Return the term of the first view."""

    def stages(self, task: Task, epochs: int) -> tuple[Stage, ...]:
        """Return the one stage."""
        terms = {self.name: WeightedTerm(1.0, self.term(task))}
        return (Stage(epochs=epochs, views=self.views, sampler=self.sampler, terms=terms),)


@dataclass(frozen=True, kw_only=True)
class OneLoss(OneBranch):
    """A classifier on the first view, trained by a loss of its logits."""

    def criterion(self, task: Task, reduction: Reduction = "mean") -> nn.Module:
        """Return the loss, of logits (N, K) and labels (N,); by default cross-entropy."""
        return nn.CrossEntropyLoss(reduction=reduction)

    def term(self, task: Task) -> Term:
        """Return the term of the loss; by default there is no more to it."""
        return Classification(self.criterion(task))


def is_loss_alone(kind: type[Method]) -> bool:
    """Return whether a loss of logits is all there is, so that it can be taken of one image with two labels."""
    return issubclass(kind, OneLoss) and kind.term is OneLoss.term
