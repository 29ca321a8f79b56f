"""Classifiers whose logits in evaluation differ from those in training."""

from torch import nn


class EvaluatesOtherwise:
    """Marks such a classifier; `evaluates_otherwise` asks for it."""


def evaluates_otherwise(classifier: nn.Module | None) -> bool:
    """Return whether a classifier, or one within it, predicts by other logits than it is trained by."""
    return classifier is not None and any(isinstance(part, EvaluatesOtherwise) for part in classifier.modules())
