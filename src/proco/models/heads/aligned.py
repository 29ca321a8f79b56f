"""A linear classifier whose logits are calibrated, as far as each image asks for it."""

import torch
from torch import Tensor, nn


class Calibration(nn.Module):
    """(1 + c scale_j) s_j + c shift_j with c = sigmoid(direction.f + offset): of logits s (N, K), by features f (N, d).

    It begins with scales and shifts of 0, which leave logits as they are, to the bit, and a confidence c that grows
    with the sum of the features.
    """

    def __init__(self, num_features: int, num_classes: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.empty(num_classes))
        self.shift = nn.Parameter(torch.empty(num_classes))
        self.direction = nn.Parameter(torch.empty(num_features))
        self.offset = nn.Parameter(torch.empty(()))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Begin anew; nothing is drawn."""
        nn.init.zeros_(self.scale)
        nn.init.zeros_(self.shift)
        nn.init.constant_(self.direction, 0.1)
        nn.init.zeros_(self.offset)

    def forward(self, logits: Tensor, features: Tensor) -> Tensor:
        """Return the calibrated logits."""
        confidence = torch.sigmoid(features @ self.direction + self.offset)[:, None]
        return (1 + confidence * self.scale) * logits + confidence * self.shift


class AlignedClassifier(nn.Linear):
    """A linear classifier and the `calibration` of its logits: (N, K) of features (N, d).

    It is the linear classifier alone until the calibration learns. What that does is in its parameters and nowhere
    else, so that checkpoints, averages of the weights and recorded steps need not know of it.
    """

    def __init__(self, num_features: int, num_classes: int) -> None:
        super().__init__(num_features, num_classes)
        self.calibration = Calibration(num_features, num_classes)

    def forward(self, features: Tensor) -> Tensor:
        """Return the logits."""
        logits: Tensor = self.calibration(super().forward(features), features)
        return logits
