"""Classifiers that are not learnt but fitted to the features of the training images."""

from abc import ABC, abstractmethod

from torch import Tensor, nn


class FittedClassifier(nn.Module, ABC):
    """A classifier that looks at the features of all training images before it is evaluated.

    The trainer calls `fit` before each evaluation, on every rank with a part of the images; what is found is in
    buffers, the same on all ranks, and so in the weights that are kept.
    """

    @abstractmethod
    def fit(self, features: Tensor, labels: Tensor) -> None:
        """Take in this rank's training images: features (n, d), as the network sees them in use, and labels (n,)."""
