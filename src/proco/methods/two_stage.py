"""What methods of two stages share: a network is trained whole, and then its classifier alone, on the frozen backbone.

In the second stage all that does not learn is in evaluation mode, the batch norms of the backbone too, so that the
classifier learns from the features that it will see in use.
"""

from abc import abstractmethod
from dataclasses import dataclass, field, replace
from typing import ClassVar

from torch import nn

from proco.data.samplers import SAMPLERS
from proco.errors import ConfigError
from proco.methods.classification import Classification
from proco.methods.composition import require_no_views
from proco.methods.cross_entropy import CrossEntropy
from proco.methods.method import PARTS, Family, Method, Stage, Task, Term, WeightedTerm
from proco.methods.one_branch import OneBranch
from proco.models.heads import evaluates_otherwise

LINEAR_PARTS = ("backbone", "classifier.weight", "classifier.bias", "projector")
"""All of a network but what its classifier has beyond a linear one."""


@dataclass(frozen=True, kw_only=True)
class TwoStage(Method):
    """A network trained whole, and then its classifier, or a part of it, on the first view and the frozen backbone."""

    family: ClassVar[Family] = "two stages"
    cost: ClassVar[str] = "one view, and epochs of the classifier alone"
    second_learning: ClassVar[tuple[str, ...]] = ("classifier",)
    """What learns in the second stage."""
    second_renewed: ClassVar[tuple[str, ...]] = ()
    """What is drawn anew before it."""

    classifier_epochs: int = 10
    """Epochs of the second stage; those of the run are of the first."""
    classifier_lr: float = 0.1
    """Learning rate from which the second stage falls along a cosine, for a batch of 256."""
    classifier_weight_decay: float | None = None
    """Weight decay of the second stage; by default that of the run."""
    classifier_sampler: str = "class_aware"
    """How often images are drawn in the second stage. An epoch of class_aware is as long as if all classes were as
    large as the largest: of CIFAR-100 with imbalance 100, 50,000 images, 4.6 times its epoch of every image once."""

    def __post_init__(self) -> None:
        """Refuse what no second stage can have."""
        super().__post_init__()
        if self.classifier_epochs < 1:
            raise ConfigError(f"method.classifier_epochs must be at least 1; got {self.classifier_epochs}.")
        self.require_not_negative("classifier_lr")
        if self.classifier_weight_decay is not None:
            self.require_not_negative("classifier_weight_decay")
        _ = SAMPLERS[self.classifier_sampler]

    @abstractmethod
    def first_stage(self, task: Task, epochs: int) -> Stage:
        """Return the stage in which the backbone learns."""

    @abstractmethod
    def second_term(self, task: Task) -> Term:
        """Return the term of the second stage."""

    def second_stage(self, task: Task) -> Stage:
        """Return the stage in which the classifier alone learns."""
        decay = {} if self.classifier_weight_decay is None else {"weight_decay": self.classifier_weight_decay}
        return Stage(
            epochs=self.classifier_epochs,
            views=self.views[:1],
            sampler=self.classifier_sampler,
            terms={self.name: WeightedTerm(1.0, self.second_term(task))},
            learning=self.second_learning,
            renewed=self.second_renewed,
            optim={"lr": self.classifier_lr, "schedule": "cosine", "warmup": 0.0, **decay},
        )

    def stages(self, task: Task, epochs: int) -> tuple[Stage, ...]:
        """Return the two stages."""
        return self.first_stage(task, epochs), self.second_stage(task)


@dataclass(frozen=True, kw_only=True)
class Decoupled(TwoStage):
    """Any method of one classifier first, and then a correction of that classifier.

    Predictions are by the logits as they are, whatever the first method subtracts from them: the second stage takes its
    place. A first method whose classifier evaluates otherwise than it trains is refused: a second stage would train
    what is not used.
    """

    first_learning: ClassVar[tuple[str, ...]] = PARTS
    """What learns in the first stage."""

    first: OneBranch = field(default_factory=CrossEntropy)
    """How the network is trained at first: any method of one classifier, on this one's views and samples."""

    def __post_init__(self) -> None:
        """Refuse a first method with views of its own."""
        super().__post_init__()
        require_no_views(self.first, "first")

    def first_stage(self, task: Task, epochs: int) -> Stage:
        """Return the stage of the first method."""
        (stage,) = self.first.stages(task, epochs)
        return replace(stage, views=self.views, sampler=self.sampler, learning=self.first_learning)

    def classifier(self, num_features: int, num_classes: int) -> nn.Module | None:
        """Return the classifier that the first method asks for."""
        own = self.first.classifier(num_features, num_classes)
        if evaluates_otherwise(own):
            raise ConfigError(
                f"method.first: the classifier of {self.first.name} evaluates otherwise than it trains, and a second "
                "stage would train what is not used. Choose another first method."
            )
        return own

    def begins_as(self) -> Method:
        """Return the first method, on this one's views and samples."""
        return replace(self.first, views=self.views, sampler=self.sampler)

    def second_term(self, task: Task) -> Term:
        """Return the term of the second stage; by default cross-entropy."""
        return Classification(nn.CrossEntropyLoss())

    def require_linear(self, num_features: int, num_classes: int) -> None:
        """Refuse a first method whose classifier is its own, for a correction that is of linear classifiers."""
        own = Decoupled.classifier(self, num_features, num_classes)
        if own is not None and type(own) is not nn.Linear:
            raise ConfigError(
                f"method.first: {self.first.name} has a classifier of its own ({type(own).__name__}); {self.name} "
                "corrects linear ones. Choose another first method."
            )
