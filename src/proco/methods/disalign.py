"""DisAlign (Zhang et al., CVPR 2021): a frozen network's logits are calibrated, as far as each image asks for it.

s'_j = (1 + c a_j) s_j + c b_j with the confidence c = sigmoid(v.f + u). a, b, v and u learn in the second stage, by
cross-entropy weighted by (1/pi_j)^rho, scaled to sum K, and divided by the sum of a batch's weights. In the first stage
all four are 0 and frozen, so that s' = s; as the second begins they are set to 1, 0, 0.1 and 0, which leaves the
largest logit the largest. No flag marks the stage: with weights alone a checkpoint is complete.

Departures: the original freezes parameters only; here the backbone is in evaluation mode (see crt). The paper writes
c (a s + b) + (1 - c) s, whose a is the code's plus 1; this is the code's, which begins at the paper's a = 2. u begins
at 0 and not at random. rho, rate and epochs are those for ImageNet-LT; there are none for CIFAR. Over several ranks the
sum of weights is that of all, as one process would have it.
"""

from dataclasses import dataclass

from torch import nn

from proco.losses.inverse_frequency import InverseFrequencyLoss
from proco.methods.classification import Classification
from proco.methods.method import Method, Task, Term
from proco.methods.two_stage import Decoupled
from proco.models.heads import AlignedClassifier


@Method.registry.register("disalign")
@dataclass(frozen=True, kw_only=True)
class DisAlign(Decoupled):
    """Cross-entropy, and then a calibration of the logits, more of it where an image asks for more."""

    source = "Zhang et al., Distribution alignment: a unified framework for long-tail visual recognition, CVPR 2021"
    first_learning = ("backbone", "classifier.weight", "classifier.bias", "projector")
    second_learning = ("classifier.calibration",)
    second_renewed = ("classifier.calibration",)

    classifier_sampler: str = "instance"
    """How often images are drawn in the second stage."""
    rho: float = 1.2
    """Power of the inverse class frequencies that weigh the images in the second stage; 0 weighs all alike."""

    def __post_init__(self) -> None:
        """Refuse a power that is none."""
        super().__post_init__()
        self.require_not_negative("rho")

    def classifier(self, num_features: int, num_classes: int) -> nn.Module:
        """Return a linear classifier with a calibration."""
        self.require_linear(num_features, num_classes)
        return AlignedClassifier(num_features, num_classes)

    def second_term(self, task: Task) -> Term:
        """Return the weighted cross-entropy."""
        return Classification(InverseFrequencyLoss(task.class_counts, power=self.rho))
