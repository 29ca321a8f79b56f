"""Implicit semantic data augmentation (Wang et al., NeurIPS 2019): cross-entropy over all shifts of the features.

Features of an image of class y are moved at random by N(0, l S_y), S_y the covariance of its class. The expected
cross-entropy over all moves has an upper bound in closed form, by Jensen's inequality and the moment-generating
function of a normal distribution; that bound is the loss.

Shapes: N samples, K classes, d features.
"""

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from proco.full_precision import FullPrecisionModule
from proco.losses.batch import Reduction, checked_logits, reduce, require_matrix
from proco.losses.class_covariances import ClassCovariances, CovarianceKind
from proco.ranges import require_choice, require_not_negative


class IsdaLoss(FullPrecisionModule):
    """-log softmax(s')_y with s'_j = s_j + (l/2) (w_j - w_y)' S_y (w_j - w_y), of logits s = W f + b.

    It is at least the mean cross-entropy of features f + e, e ~ N(0, l S_y). In training mode each call first takes the
    features into the covariances S, then scores them; gradients reach logits and weights, not the covariances.

    strength: what l grows to. `grow` sets it during training: at first covariances are those of random features.

    logits: (N, K), labels: (N,) in [0, K), features: (N, d), weight: (K, d), of the classifier that made the logits.
    Returns a scalar, or (N,) with reduction="none".

    >>> criterion = IsdaLoss(num_classes=2, num_features=3)
    >>> features, weight = torch.tensor([[1.0, 0.0, 0.0], [3.0, 0.0, 0.0]]), torch.eye(2, 3)
    >>> criterion.grow(1.0)
    >>> criterion(features @ weight.T, torch.tensor([0, 0]), features, weight)  # class 0 has variance 1 along w_0
    tensor(0.2244)
    """

    current_strength: Tensor

    def __init__(
        self,
        num_classes: int,
        num_features: int,
        *,
        strength: float = 0.5,
        covariance: CovarianceKind = "full",
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__()
        require_choice(Reduction, reduction=reduction)
        require_not_negative(strength=strength)
        self.strength = strength
        self.reduction: Reduction = reduction
        self.covariances = ClassCovariances(num_classes, num_features, covariance)
        self.register_buffer("current_strength", torch.zeros(()))

    def grow(self, done: float) -> None:
        """Let l be strength times the share of training that is over."""
        self.current_strength.fill_(self.strength * done)

    def forward(self, logits: Tensor, labels: Tensor, features: Tensor, weight: Tensor) -> Tensor:
        """Return the loss of a batch."""
        num_classes, num_features = self.covariances.means.shape
        logits, labels = checked_logits(logits, labels, num_classes)
        require_matrix(features, num_features, "features")
        if len(features) != len(logits):
            raise ValueError(f"features must be those of the {len(logits)} logits; got {len(features)}.")
        if weight.shape != (num_classes, num_features):
            raise ValueError(
                f"weight must have shape ({num_classes}, {num_features}), a row for each class; "
                f"got {tuple(weight.shape)}."
            )
        with torch.autocast(logits.device.type, enabled=False):
            if self.training:
                self.covariances.update(features, labels)
            spread = self.covariances.spread(weight.to(logits.dtype))[labels]
            augmented = logits + self.current_strength.to(logits.dtype) / 2 * spread
            return reduce(cross_entropy(augmented, labels, reduction="none"), self.reduction)

    def extra_repr(self) -> str:
        """Return the settings."""
        return f"strength={self.strength}, reduction={self.reduction!r}"
