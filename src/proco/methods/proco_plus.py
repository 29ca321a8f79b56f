"""ProCo for a network with a teacher: boxes of other images are pasted in, and the teacher says what is then seen.

L = share l(s, y) + (1 - share) l(s, y') + L_ProCo of the other views, with l the classifier's loss and y' the class of
the box; what the teacher adds is T^2 KL(teacher || network).
"""

from dataclasses import dataclass, field, replace

from proco.augment import Auto, Paste, Sim, View
from proco.errors import ConfigError
from proco.methods.classification import SharedClassification
from proco.methods.method import Method, Stage, Task, Term
from proco.methods.one_branch import OneLoss, is_loss_alone
from proco.methods.proco import ProCo


@Method.registry.register("proco_plus")
@dataclass(frozen=True, kw_only=True)
class ProCoPlus(ProCo):
    """ProCo with boxes of other images pasted into the classifier's view (CutMix), for networks with a teacher.

    Boxes are of all classes equally often. Alone they take more from frequent classes than they give to rare ones; with
    a teacher, who says what is then seen, they give more. Logits are adjusted by the counts of the images:
    were boxes counted too, rare classes would lose by them.
    """

    source = "this library, on Du et al., T-PAMI 2024; CutMix: Yun et al., ICCV 2019"
    cost = "three views, and a teacher that is trained first"

    views: tuple[View, ...] = (Auto(cutout=0), Sim(), Sim())
    """The first is the classifier's; the box that is pasted into it stands for the one that Cutout leaves empty."""
    paste: Paste = field(default_factory=Paste)
    """How often boxes are pasted, and of which images."""

    def __post_init__(self) -> None:
        """Refuse a classification that is more than a loss of logits: it knows one class an image."""
        super().__post_init__()
        if not is_loss_alone(type(self.classification)):
            losses = (name for name, kind in Method.registry.items() if is_loss_alone(kind))
            raise ConfigError(
                f"method.classification: {self.classification.name} cannot stand where an image shows two classes, as "
                f"under {self.name}. Choose one that is a loss of logits alone: {', '.join(losses)}."
            )

    def caution(self, num_classes: int, *, is_taught: bool) -> str:
        """Say that it is to be taught."""
        own = "" if is_taught else "proco_plus is to be taught (teacher.run): else its boxes cost accuracy."
        return " ".join(filter(None, [own, super().caution(num_classes, is_taught=is_taught)]))

    def classification_term(self, task: Task) -> Term:
        """Return the classifier's term, of the image and of what is pasted in."""
        assert isinstance(self.classification, OneLoss), "others are refused"
        return SharedClassification(self.classification.criterion(task, "none"))

    def stages(self, task: Task, epochs: int) -> tuple[Stage, ...]:
        """Return ProCo's stages, with boxes where the classifier learns."""
        return tuple(
            replace(stage, blend=self.paste) if stage.trains("classifier") else stage
            for stage in super().stages(task, epochs)
        )
