"""Nearest class mean (Kang et al., ICLR 2020): cross-entropy in training; predict the class whose mean is nearest.

Scores are s_j = -|g(f) - m_j|^2, with m_j the mean of g over the training images of class j, and g(f) the features less
the mean of all training features, scaled to unit length ("cl2n"). Every class has one mean, however many images it has.

Departures: means are taken anew before each evaluation and not once, so that curves show what the method predicts. A
class without a training image, which the authors' code would leave out of the list of classes, never wins.
"""

from dataclasses import dataclass

from torch import nn

from proco.methods.method import Method
from proco.methods.post_hoc import PostHoc
from proco.models.heads import NearestMeanClassifier
from proco.models.heads.nearest_mean import Distance


@Method.registry.register("ncm")
@dataclass(frozen=True, kw_only=True)
class Ncm(PostHoc):
    """Cross-entropy in training; the prediction is the class whose mean feature is nearest."""

    source = "Kang et al., Decoupling representation and classifier for long-tailed recognition, ICLR 2020"
    cost = "one view, and a look at all training images before each evaluation"

    distance: Distance = "cl2n"
    """Between which features: centred and scaled to unit length (cl2n), scaled (l2n), or as they are (raw)."""

    def classifier(self, num_features: int, num_classes: int) -> nn.Module:
        """Return the classifier that is fitted to the training features."""
        return NearestMeanClassifier(num_features, num_classes, distance=self.distance)
