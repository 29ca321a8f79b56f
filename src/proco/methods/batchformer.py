"""BatchFormer (Hou et al., CVPR 2022): in training, features that have seen the rest of their batch are classified too.

u = T(f), T a transformer layer over the batch as a sequence; the same classifier is trained on f and on u, so that the
backbone learns from what images have in common. In use there are f and the classifier alone: a prediction does not
depend on what else is in the batch.

The original concatenates f and u and doubles the labels. Here the term is taken of both, and their mean: as halves have
the same size and the same labels, the mean over 2N images, weighted by class or not, is the mean of the two. A term
that keeps statistics of features takes in both, one after the other.

Only the first view passes T. With several ranks each has a batch of its own, and T sees that alone, as in the original:
two ranks are not one process here.

Departures: the original has one view. A classifier that follows its features, as that of tde does, takes in both f and
u.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from proco.errors import ConfigError
from proco.losses.batch import Reduction
from proco.methods.composition import require_no_views
from proco.methods.logit_adjustment import LogitAdjustment
from proco.methods.method import Method, Targets, Task, Term
from proco.methods.one_branch import OneBranch
from proco.models.batch_transformer import BatchTransformer
from proco.models.network import Outputs


class BatchFormed(Term):
    """The mean of a term of the outputs and of the same term where the first view's features have seen the batch."""

    def __init__(self, term: Term, transformer: nn.Module) -> None:
        super().__init__()
        self.term, self.transformer = term, transformer

    def forward(self, outputs: Sequence[Outputs], targets: Targets, classifier: nn.Module) -> Tensor:
        """Return the mean of both values."""
        first, *others = outputs
        features = self.transformer(first.features)
        formed = first._replace(features=features, logits=classifier(features))
        values = [self.term([view, *others], targets, classifier) for view in (first, formed)]
        return torch.stack(values).mean()


@Method.registry.register("batchformer")
@dataclass(frozen=True, kw_only=True)
class BatchFormer(OneBranch):
    """Any method of one classifier, whose features in training also look at the other images of their batch."""

    family = "wrapper"
    source = "Hou et al., BatchFormer: learning to explore sample relationships, CVPR 2022"
    cost = "one view, and a transformer layer over the batch"
    equal_on_ranks = False

    base: OneBranch = field(default_factory=LogitAdjustment)
    """How the classifier is trained: any method of one classifier and one loss, on this one's views and samples."""
    heads: int = 4
    """Heads of the attention; they have to divide the features of the backbone."""
    dropout: float = 0.5
    """Share of the numbers within the layer that are left out, other ones in every step."""

    def __post_init__(self) -> None:
        """Refuse what no layer can have."""
        super().__post_init__()
        require_no_views(self.base, "base")
        if self.heads < 1:
            raise ConfigError(f"method.heads must be at least 1; got {self.heads}.")
        if not 0 <= self.dropout < 1:
            raise ConfigError(f"method.dropout is a share, from 0 to below 1; got {self.dropout:g}.")

    def criterion(self, task: Task, reduction: Reduction = "mean") -> nn.Module:
        """Return the criterion of the base."""
        return self.base.criterion(task, reduction)

    def term(self, task: Task) -> Term:
        """Return the term of the base, of features with and without the batch."""
        if task.num_features % self.heads:
            raise ConfigError(
                f"method.heads={self.heads} does not divide the {task.num_features} features of the backbone; choose a "
                "divisor of them."
            )
        transformer = BatchTransformer(task.num_features, heads=self.heads, dropout=self.dropout)
        return BatchFormed(self.base.term(task), transformer)

    def classifier(self, num_features: int, num_classes: int) -> nn.Module | None:
        """Return the classifier of the base."""
        return self.base.classifier(num_features, num_classes)

    def predict(self, outputs: Outputs, class_counts: Tensor) -> Tensor:
        """Return what the base predicts."""
        return self.base.predict(outputs, class_counts)
