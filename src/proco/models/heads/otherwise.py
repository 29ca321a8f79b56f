"""Classifiers whose logits in evaluation are others than in training."""

from torch import nn


class EvaluatesOtherwise:
    """What such classifiers inherit from, so that whoever compares or trains logits on the way can ask."""


def evaluates_otherwise(classifier: nn.Module | None) -> bool:
    """Return whether a classifier, or one within it, predicts by other logits than it is trained by."""
    return classifier is not None and any(isinstance(part, EvaluatesOtherwise) for part in classifier.modules())
