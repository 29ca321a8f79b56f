"""What a run that comes first gives to the one it teaches (knowledge distillation)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from proco.data.dataset import Dataset, name_some
from proco.errors import ConfigError
from proco.methods.distillation import Distillation
from proco.methods.method import Method, Stage, WeightedTerm
from proco.models.heads import evaluates_otherwise
from proco.models.network import Network
from proco.training.classifier import Classifier
from proco.training.run_folder import RunError, RunFolder
from proco.training.settings import TeacherConfig


@dataclass(frozen=True)
class Teacher:
    """A finished network, and how its method predicts with it."""

    network: Network
    method: Method
    class_counts: Tensor
    top1: float | None = None
    """What its run reached, for the summary of the one it teaches; ranks that write none need not know."""

    def __post_init__(self) -> None:
        """Freeze the network."""
        self.network.requires_grad_(False).eval()

    @classmethod
    def of(cls, folder: RunFolder, dataset: Dataset, size: tuple[int, int], device: torch.device) -> "Teacher":
        """Read what the finished run in a folder has left; refuse one that cannot teach on this data at this size."""
        classifier = Classifier.of(folder, str(device))
        if classifier.class_names != dataset.class_names:
            raise RunError(
                f"the run in {folder.path} knows {name_some(classifier.class_names)}; it cannot teach "
                f"{name_some(dataset.class_names)}, which must be the same in the same order."
            )
        classifier.require_channels(dataset.splits["train"].images.channels)
        if classifier.size != size:
            its, own = ("{} x {}".format(*sides) for sides in (classifier.size, size))
            raise RunError(
                f"the run in {folder.path} saw images of {its} pixels; it cannot teach one that sees {own}: both are "
                "shown the same views."
            )
        counts = classifier.class_counts.to(device)
        return cls(classifier.network, classifier.config.method, counts, folder.summary()["top1"])

    @torch.no_grad()
    def __call__(self, images: Tensor) -> Tensor:
        """Return what it says of the images, (N, C, H, W) to (N, K)."""
        return self.method.predict(self.network(images), self.class_counts)


_TERM = "distillation"


def is_taught(stage: Stage) -> bool:
    """Return whether what a teacher says counts in the stage."""
    return _TERM in stage.terms


def require_teachable(network: Network, method: Method) -> None:
    """Refuse to teach a network whose logits in training are not those it predicts by."""
    if evaluates_otherwise(network.classifier):
        raise ConfigError(
            f"the classifier of {method.name} evaluates otherwise than it trains: its logits cannot be compared with "
            "what a teacher says. Leave out the teacher, or choose another method."
        )


def taught_stages(
    stages: Sequence[Stage], teacher: TeacherConfig, method: Method, class_counts: Tensor
) -> tuple[Stage, ...]:
    """Return the stages of a method, those in which the classifier learns with what the teacher says as one more term.

    Without labels a classifier is what it was drawn as, and has nothing to be compared with.
    """
    taught = []
    for stage in stages:
        term = Distillation(method.predict, class_counts, temperature=teacher.temperature)
        terms = {**stage.terms, _TERM: WeightedTerm(teacher.weight, term)}
        taught.append(replace(stage, terms=terms) if stage.trains("classifier") else stage)
    return tuple(taught)
