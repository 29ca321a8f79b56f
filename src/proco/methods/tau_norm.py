"""tau-normalisation (Kang et al., ICLR 2020): cross-entropy in training; predict by features.w_j / |w_j|^tau.

The weights of frequent classes grow longer than those of rare ones; dividing by a power of their length takes that
back, without further training. The bias is dropped.

Departures: the authors' code tries tau = 0, 0.1, ..., 2 on the split it reports on. Here tau is a setting, to be chosen
on images that are left out.
"""

from dataclasses import dataclass

from torch import nn

from proco.methods.method import Method
from proco.methods.post_hoc import PostHoc
from proco.models.heads import TauNormClassifier


@Method.registry.register("tau_norm")
@dataclass(frozen=True, kw_only=True)
class TauNorm(PostHoc):
    """Cross-entropy in training; the lengths of the classifier's weights are evened out when predicting."""

    source = "Kang et al., Decoupling representation and classifier for long-tailed recognition, ICLR 2020"

    tau: float = 0.7
    """How far lengths are evened out: 0 leaves them, 1 makes all the same. 0.7 is about the best on ImageNet-LT; choose
    it on images that are left out (data.validation)."""

    def __post_init__(self) -> None:
        """Refuse a negative or infinite power."""
        super().__post_init__()
        self.require_not_negative("tau")

    def classifier(self, num_features: int, num_classes: int) -> nn.Module:
        """Return the classifier whose weights are evened out in evaluation."""
        return TauNormClassifier(num_features, num_classes, tau=self.tau)
