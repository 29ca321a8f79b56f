"""Supervised contrastive learning (Khosla et al., NeurIPS 2020), beside a classifier or before it."""

from dataclasses import dataclass

from proco.augment import Auto, Sim, View
from proco.errors import ConfigError
from proco.losses.logit_adjustment import LogitAdjustedLoss
from proco.losses.supcon import ContrastForm, SupConLoss
from proco.methods.method import Classification, Method, Stage, Task, WeightedTerm
from proco.methods.pairs import Pairs
from proco.optim import OptimConfig


@Method.registry.register("supcon")
@dataclass(frozen=True, kw_only=True)
class SupCon(Method):
    """A logit-adjusted classifier and contrast within the batch; or the contrast first, and the classifier after it."""

    needs_projector = True
    least_views = 2

    views: tuple[View, ...] = (Auto(), Sim(), Sim())
    """The first is the classifier's, the others are the projector's."""
    temperature: float = 0.1
    weight: float = 1.0
    """Of the contrastive loss beside the classifier's."""
    form: ContrastForm = "out"
    tau: float = 1.0
    """Strength of the logit adjustment of the classifier."""
    classifier_epochs: int = 0
    """Train backbone and projector alone, and then a classifier on the frozen backbone for this many epochs. 0 trains
    all of it together."""
    classifier_lr: float = 2.5
    """Learning rate of those epochs. SupCon's own is 5 for a batch of 512; this is for 256."""

    def __post_init__(self) -> None:
        """Refuse a negative length."""
        super().__post_init__()
        if self.classifier_epochs < 0:
            raise ConfigError(f"method.classifier_epochs must not be negative; got {self.classifier_epochs}.")

    def stages(self, task: Task, epochs: int) -> tuple[Stage, ...]:
        """Return one joint stage, or the representation's and the classifier's."""
        classification = WeightedTerm(1.0, Classification(LogitAdjustedLoss(task.class_counts, tau=self.tau)))
        criterion = SupConLoss(self.temperature, form=self.form)
        if not self.classifier_epochs:
            pairs = WeightedTerm(self.weight, Pairs(criterion, first_view=1))
            terms = {"logit_adjustment": classification, "supcon": pairs}
            return (Stage(epochs=epochs, views=self.views, sampler=self.sampler, terms=terms),)
        representation = Stage(
            epochs=epochs,
            views=self.views[1:],
            sampler=self.sampler,
            terms={"supcon": WeightedTerm(1.0, Pairs(criterion, first_view=0))},
            learning=("backbone", "projector"),
        )
        classifier = Stage(
            epochs=self.classifier_epochs,
            views=self.views[:1],
            terms={"logit_adjustment": classification},
            learning=("classifier",),
            optim=OptimConfig(
                lr=self.classifier_lr, weight_decay=0.0, warmup=0.0, milestones=(0.6, 0.75, 0.9), factor=0.2
            ),
        )
        return representation, classifier
