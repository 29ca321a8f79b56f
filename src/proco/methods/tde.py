"""De-confounded training and total direct effect (Tang et al., NeurIPS 2020).

A cosine classifier of several heads learns by cross-entropy while the mean m of the features is followed; when
predicting, the part of each feature along m is taken off, alpha times: x_h/|x_h| - alpha cos(x_h, m_h) m_h/|m_h|. See
`CausalClassifier` for the formula of the logits.

Departures: the original's ResNet-32 is BBN's, with two last blocks side by side and 128 features; here it is the usual
one, with 64. On large sets the original lets the momentum of m follow the learning rate, 1 - 0.1 min(50 lr, 1); here
it is a setting that stays, as the original's does on CIFAR. Over several ranks m is that of all. alpha acts in
evaluation only. The authors tuned it after training (1 on CIFAR-10, 1.5 on CIFAR-100, 3 on ImageNet-LT) and advise one
with which alpha times the mean cosine of features and m is about 1; choose it on images that are left out. The
original's warm-up begins at a third of the rate; here, in the recipes, at a fifth. Beside a contrast m is the mean over
all views, which all pass the classifier.
"""

from dataclasses import dataclass

from torch import nn

from proco.errors import ConfigError
from proco.methods.method import Method
from proco.methods.one_branch import OneLoss
from proco.models.heads import CausalClassifier


@Method.registry.register("tde")
@dataclass(frozen=True, kw_only=True)
class Tde(OneLoss):
    """Cross-entropy of a cosine classifier; what all features have in common is taken off when predicting."""

    family = "classifier"
    source = (
        "Tang et al., Long-tailed classification by keeping the good and removing the bad momentum causal effect, "
        "NeurIPS 2020"
    )
    cost = "one view"

    heads: int = 2
    """Equal parts into which features and weights are cut, each with cosines of its own."""
    scale: float = 16.0
    """What the mean of the heads' cosines is multiplied by."""
    alpha: float = 1.5
    """How much of the common direction is taken off when predicting; 0 predicts by the logits of training. 1.5 is the
    original's for CIFAR-100. It depends on the data, and too much is worse than nothing where classes are few: choose
    it on images that are left out (data.validation)."""
    momentum: float = 0.9
    """What the sum of past mean features is multiplied by with each batch."""
    offset: float = 1 / 32
    """What is added to the length of a class's weights before it is divided by: shorter ones have smaller logits."""

    def __post_init__(self) -> None:
        """Refuse numbers the classifier cannot have."""
        super().__post_init__()
        if self.heads < 1:
            raise ConfigError(f"method.heads must be at least 1; got {self.heads}.")
        self.require_positive("scale")
        self.require_below_one("momentum")
        self.require_not_negative("alpha", "offset")

    def caution(self, num_classes: int, *, is_taught: bool) -> str:
        """Say that alpha has to suit the data."""
        if self.alpha < 1 or num_classes >= 50:
            return ""
        return (
            f"alpha={self.alpha:g} of tde is that of a hundred classes; with {num_classes} it may take off so much "
            "that few of them are ever predicted. Try alpha=0.25, and choose it by images that are left out."
        )

    def classifier(self, num_features: int, num_classes: int) -> nn.Module:
        """Return the classifier of several heads."""
        return CausalClassifier(
            num_features,
            num_classes,
            heads=self.heads,
            scale=self.scale,
            alpha=self.alpha,
            momentum=self.momentum,
            offset=self.offset,
        )
