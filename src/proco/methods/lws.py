"""Learnable weight scaling, LWS (Kang et al., ICLR 2020): a scale for each class's logit, on the frozen network.

s'_j = g_j (w_j.f + b_j), with g_j = 1 while the network learns by -log softmax(s)_y; then g alone learns, by the same
loss of s' on batches in which all classes are as frequent.

Departures: the original freezes parameters only; here the backbone is in evaluation mode (see crt). Like the original
code, and other than the paper, the scale is also of the bias. Its rate of 0.2 is for a batch of 512. It has no settings
for CIFAR: those of the recipes are ours.
"""

from dataclasses import dataclass

from torch import nn

from proco.methods.method import Method
from proco.methods.two_stage import LINEAR_PARTS, Decoupled
from proco.models.heads import ScaledClassifier


@Method.registry.register("lws")
@dataclass(frozen=True, kw_only=True)
class Lws(Decoupled):
    """Cross-entropy, and then one scale for each class's logit from batches of even classes."""

    source = "Kang et al., Decoupling representation and classifier for long-tailed recognition, ICLR 2020"
    first_learning = LINEAR_PARTS
    second_learning = ("classifier.scale",)

    classifier_epochs: int = 5
    """Epochs of the second stage; those of the run are of the first."""

    def classifier(self, num_features: int, num_classes: int) -> nn.Module:
        """Return a linear classifier with scales."""
        self.require_linear(num_features, num_classes)
        return ScaledClassifier(num_features, num_classes)
