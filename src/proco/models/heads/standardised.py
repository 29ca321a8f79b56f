"""A linear classifier of standardised features."""

from torch import Tensor, nn


class StandardisedClassifier(nn.Linear):
    """weight (features - mean) / deviation + bias: logits (N, K) of features (N, d), each standardised over the batch.

    It can say what a linear classifier of the features can, but how fast it learns does not depend on how long these
    are, nor on a direction that all of them share. That is what a probe of a frozen backbone needs.
    """

    def __init__(self, num_features: int, num_classes: int) -> None:
        super().__init__(num_features, num_classes)
        self.norm = nn.BatchNorm1d(num_features, affine=False)

    def forward(self, features: Tensor) -> Tensor:
        """Return the logits; in evaluation, of features standardised by the running mean and variance."""
        return super().forward(self.norm(features))
