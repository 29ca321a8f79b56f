"""ProCo for a network with a teacher: boxes of other images are pasted in, and the teacher says what is then seen."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from torch import Tensor, nn

from proco.augment import Auto, Paste, Sim, View
from proco.losses.logit_adjustment import LogitAdjustedLoss
from proco.methods.method import Method, Stage, Targets, Task, Term
from proco.methods.proco import ProCo
from proco.models.network import Outputs


class SharedClassification(Term):
    """A criterion on the first view, a box of which may show another class: share l(y) + (1 - share) l(pasted).

    criterion: from logits (N, K) and labels (N,) to losses (N,).
    """

    def __init__(self, criterion: nn.Module) -> None:
        super().__init__()
        self.criterion = criterion

    def forward(self, outputs: Sequence[Outputs], targets: Targets, classifier: nn.Module) -> Tensor:
        """Return the mean loss."""
        own, pasted = (self.criterion(outputs[0].logits, labels) for labels in (targets.labels, targets.pasted))
        loss: Tensor = (targets.share * own + (1 - targets.share) * pasted).mean()
        return loss


@Method.registry.register("proco_plus")
@dataclass(frozen=True, kw_only=True)
class ProCoPlus(ProCo):
    """ProCo with boxes of other images pasted into the classifier's view (CutMix), for networks with a teacher.

    Boxes are of all classes equally often. Alone they take more from frequent classes than they give to rare ones; with
    a teacher, who says what is then seen, they give more. Logits are adjusted by the counts of the images:
    were boxes counted too, rare classes would lose by them.
    """

    views: tuple[View, ...] = (Auto(cutout=0), Sim(), Sim())
    """The first is the classifier's; the box that is pasted into it stands for the one that Cutout leaves empty."""
    paste: Paste = field(default_factory=Paste)
    """The boxes."""

    def classification(self, task: Task) -> Term:
        """Return the classifier's term, of the image and of what is pasted in."""
        return SharedClassification(LogitAdjustedLoss(task.class_counts, tau=self.tau, reduction="none"))

    def stages(self, task: Task, epochs: int) -> tuple[Stage, ...]:
        """Return ProCo's stages, with boxes where the classifier learns."""
        return tuple(
            replace(stage, paste=self.paste) if "classifier" in stage.learning else stage
            for stage in super().stages(task, epochs)
        )
