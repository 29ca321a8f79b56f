"""DisAlign (Zhang et al., CVPR 2021): a frozen network's logits are calibrated, as far as each image asks for it.

s'_j = (1 + c a_j) s_j + c b_j with the confidence c = sigmoid(v.f + u). a, b, v and u learn in the second stage, by
cross-entropy weighted by (1/pi_j)^rho, scaled to sum K, and divided by the sum of a batch's weights. They begin at 0,
0, 0.1 and 0, so that s' = s, and are frozen in the first stage. No flag marks the stage: a checkpoint is complete with
weights alone.

Departures: the paper writes c (a s + b) + (1 - c) s; a here is the paper's less 1, and begins where nothing is
calibrated, as in the authors' segmentation head. Their classifier begins at the paper's a = 2 instead, with twice the
logits. Of 2048 features c is then so near 1 that it hardly moves; of the 64 of a ResNet-32 the first steps drive it
towards 0, and with it all gradients, so that epochs pass in which nothing is learnt. Their code freezes parameters
only; here the backbone is in evaluation mode (see crt). u begins at 0 and not at random. rho, rate and epochs are those
for ImageNet-LT; there are none for CIFAR. Over several ranks the sum of weights is that of all, as one process would
have it.
"""

from dataclasses import dataclass

from torch import nn

from proco.losses.inverse_frequency import InverseFrequencyLoss
from proco.methods.classification import Classification
from proco.methods.method import Method, Task, Term
from proco.methods.two_stage import LINEAR_PARTS, Decoupled
from proco.models.heads import AlignedClassifier


@Method.registry.register("disalign")
@dataclass(frozen=True, kw_only=True)
class DisAlign(Decoupled):
    """Cross-entropy, and then a calibration of the logits, more of it where an image asks for more."""

    source = "Zhang et al., Distribution alignment: a unified framework for long-tail visual recognition, CVPR 2021"
    first_learning = LINEAR_PARTS
    second_learning = ("classifier.calibration",)

    classifier_sampler: str = "instance"
    """How often images are drawn in the second stage."""
    rho: float = 1.2
    """Power of the inverse class frequencies that weigh the images in the second stage; 0 weighs all alike."""

    def __post_init__(self) -> None:
        """Refuse a negative or infinite power."""
        super().__post_init__()
        self.require_not_negative("rho")

    def classifier(self, num_features: int, num_classes: int) -> nn.Module:
        """Return a linear classifier with a calibration."""
        self.require_linear(num_features, num_classes)
        return AlignedClassifier(num_features, num_classes)

    def second_term(self, task: Task) -> Term:
        """Return the weighted cross-entropy."""
        return Classification(InverseFrequencyLoss(task.class_counts, power=self.rho))
