"""Class-balanced focal loss (Cui et al., CVPR 2019): one yes-or-no question a class, weighted by effective numbers."""

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from proco.full_precision import FullPrecisionModule
from proco.losses.batch import Reduction, checked_logits, is_label, reduce
from proco.losses.class_counts import ClassCounts
from proco.losses.effective_number import effective_number_weights
from proco.ranges import require_choice, require_not_negative


class ClassBalancedFocalLoss(FullPrecisionModule):
    """-w_y sum_j (1 - q_j)^gamma log q_j, with q_j the probability of the right answer to "is it class j?".

    That is q_y = sigmoid(s_y) and q_j = 1 - sigmoid(s_j) for all other classes, of logits s. The weights w are those of
    `effective_number_weights`. All K answers of an image weigh by its label, and the mean is over images, not over
    weights or answers. It is not the focal loss over a softmax that is often found under this name.

    Logits of 0 answer all K questions by a half, which costs a lot where K is large: let a classifier begin with a
    bias of -log(K - 1), as `RareEventClassifier` does.

    logits: (N, K), labels: (N,) in [0, K); returns a scalar, or (N,) with reduction="none".

    >>> criterion = ClassBalancedFocalLoss(class_counts=[90, 10], beta=0.0, gamma=1.0)
    >>> criterion(torch.zeros(1, 2), torch.tensor([0]))  # twice 0.5 log 2
    tensor(0.6931)
    """

    class_weights: Tensor

    def __init__(
        self,
        class_counts: ClassCounts,
        *,
        beta: float = 0.9999,
        gamma: float = 1.0,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__()
        require_not_negative(gamma=gamma)
        require_choice(Reduction, reduction=reduction)
        self.register_buffer("class_weights", effective_number_weights(class_counts, beta))
        self.beta, self.gamma = beta, gamma
        self.reduction: Reduction = reduction

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the loss of a batch."""
        num_classes = len(self.class_weights)
        logits, labels = checked_logits(logits, labels, num_classes)
        weights = self.class_weights[labels]
        agreement = torch.where(is_label(labels, num_classes), logits, -logits)
        # By logarithms of both answers: neither probability is ever rounded to 0 or 1.
        losses = -torch.exp(self.gamma * logsigmoid(-agreement)) * logsigmoid(agreement)
        return reduce(weights.to(losses.dtype) * losses.sum(dim=1), self.reduction)

    def extra_repr(self) -> str:
        """Return the settings."""
        sizes = f"num_classes={len(self.class_weights)}, beta={self.beta}, gamma={self.gamma}"
        return f"{sizes}, reduction={self.reduction!r}"
