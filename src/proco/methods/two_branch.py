"""What contrastive methods share: a classifier on the first view, a projector on the others, together or in turn.

L = l(s, y) + weight L_rep(z, y), of the classifier's logits s on the first view and the projector's unit embeddings z
of the others: l is the classification's loss, by default logit-adjusted, L_rep the representation's.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor, nn

from proco.augment import Auto, Sim, View
from proco.errors import ConfigError
from proco.methods.composition import require_no_views
from proco.methods.logit_adjustment import LogitAdjustment
from proco.methods.method import Family, Method, Stage, Targets, Task, Term, WeightedTerm, embeddings_by_view
from proco.methods.one_branch import OneBranch
from proco.models.network import Outputs


class MeanOverViews(Term):
    """The mean of a criterion of (embeddings, labels) over views, which it sees in turn, so that statistics follow."""

    def __init__(self, criterion: nn.Module) -> None:
        super().__init__()
        self.criterion = criterion

    def forward(self, outputs: Sequence[Outputs], targets: Targets, classifier: nn.Module) -> Tensor:
        """Return the mean loss."""
        return torch.stack([self.criterion(view, targets.labels) for view in embeddings_by_view(outputs)]).mean()


class OtherViews(Term):
    """A term of all views but the first."""

    def __init__(self, term: Term) -> None:
        super().__init__()
        self.term = term

    def forward(self, outputs: Sequence[Outputs], targets: Targets, classifier: nn.Module) -> Tensor:
        """Return the term's value."""
        value: Tensor = self.term(outputs[1:], targets, classifier)
        return value


@dataclass(frozen=True, kw_only=True)
class TwoBranch(Method):
    """A classifier on the first view, logit-adjusted by default, and a representation term on the others.

    With classifier_epochs, the representation branch learns alone, and then a classifier on the frozen backbone: a
    linear probe of what contrast has learnt.
    """

    family: ClassVar[Family] = "contrast"
    cost: ClassVar[str] = "three views"
    needs_projector = True
    least_views = 2

    views: tuple[View, ...] = (Auto(), Sim(), Sim())
    """The first is the classifier's, the others are the projector's."""
    temperature: float = 0.1
    """Of the representation's loss: what cosines are divided by."""
    weight: float = 1.0
    """Of the representation's loss beside the classifier's: the paper's alpha."""
    classification: OneBranch = field(default_factory=LogitAdjustment)
    """How the classifier is trained: any method of one classifier, on this one's views and samples."""
    classifier_epochs: int = 0
    """Train backbone and projector alone, and then a classifier on the frozen backbone for this many epochs, in which
    images are drawn as they come, whatever the sampler before. 0 trains all of it together."""
    classifier_lr: float = 2.5
    """Learning rate of those epochs. SupCon's own is 5 for a batch of 512; this is for 256. For it to suit a network
    whose features are long, or share a direction, let network.classifier be standardised."""
    classifier_batch_size: int | None = None
    """Images of a step of those epochs, to which classifier_lr then applies; by default those of the run. With `auto`,
    classifier_lr is for 256 and scales."""

    def __post_init__(self) -> None:
        """Refuse numbers the losses cannot have."""
        super().__post_init__()
        self.require_positive("temperature")
        self.require_not_negative("weight", "classifier_epochs", "classifier_lr")
        require_no_views(self.classification, "classification")
        if self.classifier_batch_size is not None and self.classifier_batch_size < 1:
            raise ConfigError(f"method.classifier_batch_size must be at least 1; got {self.classifier_batch_size}.")

    def classification_term(self, task: Task) -> Term:
        """Return the classifier's term, of the first view."""
        return self.classification.term(task)

    def classifier(self, num_features: int, num_classes: int) -> nn.Module | None:
        """Return the classifier that its training asks for."""
        return self.classification.classifier(num_features, num_classes)

    def predict(self, outputs: Outputs, class_counts: Tensor) -> Tensor:
        """Return what the classifier's method predicts."""
        return self.classification.predict(outputs, class_counts)

    @abstractmethod
    def representation(self, task: Task) -> Term:
        """Return the representation's term, of as many views as it is given."""

    def stages(self, task: Task, epochs: int) -> tuple[Stage, ...]:
        """Return one joint stage, or the representation's and the classifier's."""
        classification = {self.classification.name: WeightedTerm(1.0, self.classification_term(task))}
        term = self.representation(task)
        if not self.classifier_epochs:
            terms = {**classification, self.name: WeightedTerm(self.weight, OtherViews(term))}
            return (Stage(epochs=epochs, views=self.views, sampler=self.sampler, terms=terms),)
        representation = Stage(
            epochs=epochs,
            views=self.views[1:],
            sampler=self.sampler,
            terms={self.name: WeightedTerm(1.0, term)},
            learning=("backbone", "projector"),
        )
        classifier = Stage(
            epochs=self.classifier_epochs,
            views=self.views[:1],
            batch_size=self.classifier_batch_size,
            terms=classification,
            learning=("classifier",),
            optim={  # as the linear probe of SupCon's code falls: after epochs 60, 75 and 90 of 100, to a fifth
                "lr": self.classifier_lr,
                "weight_decay": 0.0,
                "schedule": "step",
                "warmup": 0.0,
                "milestones": (0.6, 0.75, 0.9),
                "factor": 0.2,
            },
        )
        return representation, classifier
