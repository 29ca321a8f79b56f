"""BatchFormer (Hou et al., CVPR 2022): in training, features that have seen the rest of their batch are classified too.

u = T(f), T a transformer layer over the batch as a sequence; the same classifier is trained on f and on u, so that the
backbone learns from what images have in common. In use there are f and the classifier alone: a prediction does not
depend on what else is in the batch.

The original concatenates f and u and doubles the labels; the mean of the two losses, taken here, is the same number,
whether classes are weighted or not.

Only the first view passes T. With several ranks each has a batch of its own, and T sees that alone, as in the original:
two ranks are not one process here.

Departures: the original has one view, and a linear classifier. Statistics of features (the mean of tde, the covariances
of isda) are taken of f alone: u comes out of a layer norm, and is not used when predicting.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from torch import Tensor, nn

from proco.errors import ConfigError
from proco.methods.composition import require_no_views
from proco.methods.logit_adjustment import LogitAdjustment
from proco.methods.method import Method, Targets, Task, Term
from proco.methods.one_branch import OneBranch
from proco.models.batch_transformer import BatchTransformer
from proco.models.network import Outputs
from proco.models.running_statistics import in_evaluation_mode, keep_running_statistics


class BatchFormed(Term):
    """The mean of a term of the outputs and of the same term where the first view's features have seen the batch."""

    def __init__(self, term: Term, transformer: nn.Module) -> None:
        super().__init__()
        self.term, self.transformer = term, transformer

    def forward(self, outputs: Sequence[Outputs], targets: Targets, classifier: nn.Module) -> Tensor:
        """Return the mean of both values."""
        first, *others = outputs
        plain: Tensor = self.term(outputs, targets, classifier)
        features = self.transformer(first.features)
        with keep_running_statistics(classifier), in_evaluation_mode(self.term):
            formed = first._replace(features=features, logits=classifier(features))
            seen: Tensor = self.term([formed, *others], targets, classifier)
        return (plain + seen) / 2


@Method.registry.register("batchformer")
@dataclass(frozen=True, kw_only=True)
class BatchFormer(OneBranch):
    """Any method of one classifier, whose features in training also look at the other images of their batch."""

    family = "wrapper"
    source = "Hou et al., BatchFormer: learning to explore sample relationships, CVPR 2022"
    cost = "one view, and a transformer layer over the batch"
    equal_on_ranks = False

    base: OneBranch = field(default_factory=LogitAdjustment)
    """How the classifier is trained: any method of one classifier, on this one's views and samples."""
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
        self.require_below_one("dropout")

    def term(self, task: Task) -> Term:
        """Return the term of the base, of features with and without the batch."""
        transformer = BatchTransformer(task.num_features, heads=self.heads, dropout=self.dropout)
        return BatchFormed(self.base.term(task), transformer)

    def classifier(self, num_features: int, num_classes: int) -> nn.Module | None:
        """Return the classifier of the base."""
        return self.base.classifier(num_features, num_classes)

    def predict(self, outputs: Outputs, class_counts: Tensor) -> Tensor:
        """Return what the base predicts."""
        return self.base.predict(outputs, class_counts)
