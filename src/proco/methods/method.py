"""What a method is: views of an image, terms of an objective, stages of training, and a rule of prediction."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Literal, NamedTuple

import torch
from torch import Tensor, nn

from proco.augment import Blend, View
from proco.augment.auto import Auto
from proco.config import Choice
from proco.data.samplers import SAMPLERS
from proco.errors import ConfigError
from proco.models.network import Outputs
from proco.ranges import require_below_one, require_not_negative, require_positive
from proco.registry import Registry


class Targets(NamedTuple):
    """What N images show."""

    labels: Tensor  # (N,)
    other_labels: Tensor  # (N,): of the other images that the first view shows; the label where it shows none
    share: Tensor  # (N,): of the first view that is the image's own; 1 where it shows no other
    positions: Tensor  # (N,): of the images in the training split
    teacher_scores: Tensor | None = None  # (N, K): what a teacher says of the first view, where the run has one

    @classmethod
    def of(cls, labels: Tensor, positions: Tensor | None = None) -> "Targets":
        """Return the targets of images as they are; by default they are the whole training split."""
        if positions is None:
            positions = torch.arange(len(labels), device=labels.device)
        return cls(labels, labels, torch.ones(len(labels), device=labels.device), positions)


class Term(nn.Module, ABC):
    """A part of an objective: a module, so that its prototypes learn and its statistics are saved with the run."""

    @abstractmethod
    def forward(self, outputs: Sequence[Outputs], targets: Targets, classifier: nn.Module) -> Tensor:
        """Return a scalar from the outputs of each view of a batch, its targets, and the classifier of the logits."""

    def start_epoch(self, done: float = 0.0) -> None:
        """Do what is due before the first batch of an epoch; by default let its parts do so.

        done: share of the stage's epochs that are over.
        """
        for part in self.children():
            _start_epoch(part, done)


def _start_epoch(part: nn.Module, done: float) -> None:
    """Let a part of a term know that an epoch begins; of a container, what is in it."""
    if isinstance(part, Term):
        part.start_epoch(done)
    elif callable(start := getattr(part, "start_epoch", None)):
        start()
    else:
        for inner in part.children():
            _start_epoch(inner, done)


class WeightedTerm(NamedTuple):
    """A term and how much it counts."""

    weight: float
    term: Term


class Task(NamedTuple):
    """What a method knows of the data and the network when it builds its terms."""

    class_counts: Tensor  # (K,) training samples of each class
    num_features: int  # of the backbone, or of each of its experts
    hidden: int  # of the projector
    dim: int  # of the embeddings


PARTS = ("backbone", "classifier", "projector")  # of a network


@dataclass(frozen=True, kw_only=True)
class Stage:
    """A stretch of training with one objective."""

    epochs: int
    views: tuple[View, ...]
    terms: Mapping[str, WeightedTerm]
    sampler: str = "instance"
    learning: tuple[str, ...] = PARTS
    """Parts of the network that learn, or modules and parameters in them (`classifier.scale`); all else is frozen, its
    batch norms in evaluation mode."""
    renewed: tuple[str, ...] = ()
    """Parts, or modules in them, that are drawn anew as the stage begins."""
    optim: Mapping[str, Any] = field(default_factory=dict)
    """What is other than in the run's settings of optimiser and schedule (`OptimConfig`), by name."""
    batch_size: int | None = None
    """Images of a step, over all ranks, where it is other than in the run's settings."""
    blend: Blend | None = None
    """How the first view shows another image too; its terms then look at targets.other_labels and targets.share."""

    def trains(self, part: str) -> bool:
        """Return whether a part of the network learns, or something in it."""
        return any(name.split(".")[0] == part for name in self.learning)


Family = Literal["loss", "classifier", "two stages", "contrast", "ablation", "wrapper"]


@dataclass(frozen=True, kw_only=True)
class Method(Choice, ABC):
    """A way to train on uneven classes. Its fields are its settings; to add one, write a file beside this one."""

    registry = Registry[type["Method"]]("method")
    family: ClassVar[Family]
    """What kind of method it is."""
    source: ClassVar[str]
    """Who found it, and where it is published."""
    cost: ClassVar[str]
    """What its training takes beside that of cross-entropy, in words."""
    equal_on_ranks: ClassVar[bool] = True
    """Whether several ranks learn what one process with the whole batch would, as far as it depends on this method and
    not on what it is composed of."""
    needs_projector: ClassVar[bool] = False
    """Whether its terms look at embeddings."""
    least_views: ClassVar[int] = 1
    """How many views its terms look at."""

    views: tuple[View, ...] = (Auto(),)
    """Views of each image, in the order the terms expect them. Those that no term looks at go through the
    network all the same, and so through its batch norms."""
    sampler: str = "instance"
    """How often images are drawn: instance, class_balanced, class_aware, square_root, reverse, effective_number."""

    def __post_init__(self) -> None:
        """Refuse what no stage can be built of."""
        if len(self.views) < self.least_views:
            raise ConfigError(f"the method {self.name} needs {self.least_views} views or more; got {len(self.views)}.")
        _ = SAMPLERS[self.sampler]

    @classmethod
    def card(cls) -> dict[str, str]:
        """Return what lists say of it: name, family, summary, source, cost."""
        summary = (cls.__doc__ or "").strip().splitlines()[0]
        name = cls.registry.name_of(cls)
        return {"name": name, "family": cls.family, "summary": summary, "source": cls.source, "cost": cls.cost}

    @property
    def name(self) -> str:
        """What it is called in recipes."""
        return self.registry.name_of(type(self))

    @property
    def is_equal_on_ranks(self) -> bool:
        """Whether several ranks learn what one process with the whole batch would."""
        parts = (getattr(self, setting.name) for setting in fields(self))
        return self.equal_on_ranks and all(part.is_equal_on_ranks for part in parts if isinstance(part, Method))

    def require_not_negative(self, *names: str) -> None:
        """Refuse settings of these names that are negative, infinite or no numbers."""
        require_not_negative(**self._named(names))

    def require_positive(self, *names: str) -> None:
        """Refuse settings of these names that are not positive, infinite or no numbers."""
        require_positive(**self._named(names))

    def require_below_one(self, *names: str) -> None:
        """Refuse settings of these names that are below 0, 1 and more, or no numbers."""
        require_below_one(**self._named(names))

    def _named(self, names: Sequence[str]) -> dict[str, Any]:
        return {f"method.{name}": getattr(self, name) for name in names}

    @abstractmethod
    def stages(self, task: Task, epochs: int) -> tuple[Stage, ...]:
        """Return the stages of a run of the given length, their terms built for the task."""

    def begins_as(self) -> "Method | None":
        """Return the method whose whole training is the first stage of this one, or all of it; None if there is none.

        A finished run of that method then need not be repeated. Its classifier must be linear or of this method's type;
        what this method's has beyond it must have no effect in the first stage.
        """
        return None

    def caution(self, num_classes: int, *, is_taught: bool) -> str:
        """Return what to know before training so, where settings suit only some data or runs; "" where they suit all.

        By default what the methods within say.
        """
        within = (getattr(self, setting.name) for setting in fields(self))
        said = (part.caution(num_classes, is_taught=is_taught) for part in within if isinstance(part, Method))
        return " ".join(filter(None, said))

    def classifier(self, num_features: int, num_classes: int) -> nn.Module | None:
        """Return a classifier of the method's own, from features to logits; None for what network.classifier says."""
        return None

    def predict(self, outputs: Outputs, class_counts: Tensor) -> Tensor:
        """Return the scores (N, K) whose largest is the prediction; by default the classifier's logits."""
        return outputs.logits


def embeddings_by_view(outputs: Sequence[Outputs]) -> list[Tensor]:
    """Return the embeddings (N, p) of each of the views."""
    embeddings = [view.embeddings for view in outputs if view.embeddings is not None]
    assert len(embeddings) == len(outputs), "the method declares needs_projector; outputs of experts have none together"
    return embeddings
