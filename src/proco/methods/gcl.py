"""Gaussian clouded logit adjustment, GCL (Li M. et al., CVPR 2022): cosines lowered by noise, most for rare classes.

o_j = cos_j - 0.5 a_j |e_j| - m [j = y], a_j = (log n_max - log n_j) / (log n_max - log n_min), e_j of a normal
distribution of deviation 1/3, clamped to [-1, 1] (`GaussianCloudedLoss`). First -log softmax(30 o)_y with m = 0 on
images as they come, mixed with each other (mixup); then, on the frozen backbone and from the same cosine weights, the
focal loss of softmax(20 o)_y with m = 0.1 and gamma 1 on even classes, mixed too.

The noise lowers all classes' cosines, as in the authors' code; the paper's text is about the label's. The rate of the
second stage is what is effective in that code, 0.002 for a batch of 64, a fiftieth of the one it names.

Departures: in the second stage classes are drawn alike, as by default in the authors' code, where the paper draws them
by effective numbers; with hundreds of images a class that is nearly the same. Every image has a share and another image
of its own in mixup, where the original draws one share for a batch. The second stage begins from the last epoch of the
first, the original's from the best one on its test images. Scores are 20 cos, as the second stage was trained. The
original's option of learning scales (see lws) instead of the weights is left out.
"""

from dataclasses import dataclass, replace

from torch import Tensor, nn

from proco.augment import Mixup
from proco.losses.gaussian_clouded import GaussianCloudedLoss
from proco.methods.classification import SharedClassification
from proco.methods.method import Method, Stage, Task, Term, WeightedTerm
from proco.methods.two_stage import TwoStage
from proco.models.heads import CosineClassifier
from proco.models.network import Outputs


@Method.registry.register("gcl")
@dataclass(frozen=True, kw_only=True)
class Gcl(TwoStage):
    """Cosines that noise lowers, most for rare classes, and then the classifier once more on even classes."""

    equal_on_ranks = False  # each rank draws clouds of its own
    source = "Li M. et al., Long-tailed visual recognition via Gaussian clouded logit adjustment, CVPR 2022"

    classifier_epochs: int = 30
    """Epochs of the second stage; those of the run are of the first."""
    classifier_lr: float = 0.008
    """Learning rate from which the second stage falls along a cosine. GCL's own is 0.002 for a batch of 64; this is for
    256."""
    classifier_sampler: str = "class_balanced"
    """How often images are drawn in the second stage."""
    scale: float = 30.0
    """What cosines are multiplied by in the first stage."""
    noise: float = 0.5
    """How far the noise can lower the cosine of the rarest class."""
    mixup: float = 1.0
    """Images are mixed by shares of Beta(mixup, mixup), in both stages; 0 for none."""
    classifier_scale: float = 20.0
    """What cosines are multiplied by in the second stage."""
    classifier_margin: float = 0.1
    """How far the cosine of the label is lowered in the second stage."""
    classifier_gamma: float = 1.0
    """Power of the focal loss in the second stage: images that are classified with certainty count less."""

    def __post_init__(self) -> None:
        """Refuse numbers that the loss cannot have."""
        super().__post_init__()
        self.require_positive("scale", "classifier_scale")
        self.require_not_negative("noise", "mixup", "classifier_margin", "classifier_gamma")

    def classifier(self, num_features: int, num_classes: int) -> nn.Module:
        """Return a classifier by cosines."""
        return CosineClassifier(num_features, num_classes, scale=self.scale)

    def first_stage(self, task: Task, epochs: int) -> Stage:
        """Return the stage of the whole network."""
        criterion = GaussianCloudedLoss(
            task.class_counts, scale=self.scale, noise=self.noise, logit_scale=self.scale, reduction="none"
        )
        terms = {self.name: WeightedTerm(1.0, SharedClassification(criterion))}
        mixup = self._mixup(self.sampler)
        return Stage(epochs=epochs, views=self.views, sampler=self.sampler, terms=terms, blend=mixup)

    def second_term(self, task: Task) -> Term:
        """Return the focal loss of clouded cosines."""
        return SharedClassification(
            GaussianCloudedLoss(
                task.class_counts,
                scale=self.classifier_scale,
                margin=self.classifier_margin,
                gamma=self.classifier_gamma,
                noise=self.noise,
                logit_scale=self.scale,
                reduction="none",
            )
        )

    def second_stage(self, task: Task) -> Stage:
        """Return the stage of the classifier, whose images are mixed too."""
        return replace(super().second_stage(task), blend=self._mixup(self.classifier_sampler))

    def predict(self, outputs: Outputs, class_counts: Tensor) -> Tensor:
        """Return cosines times the scale of the second stage, whose probabilities were learnt."""
        return outputs.logits * (self.classifier_scale / self.scale)

    def _mixup(self, sampler: str) -> Mixup | None:
        """Return how images are mixed with others that are drawn as they are themselves."""
        return Mixup(sampler=sampler, alpha=self.mixup) if self.mixup else None
