"""Classifier re-training, cRT (Kang et al., ICLR 2020): a new classifier on the frozen backbone, all classes alike.

First -log softmax(s)_y on images as they come; then the classifier is drawn anew and trained by the same loss on
batches in which all classes are as frequent (class-aware sampling, four images of a class in a row).

Departures: the original freezes parameters only, so that the running statistics of its batch norms drift towards the
balanced images; here the backbone is in evaluation mode. Its rate of 0.2 is for a batch of 512. It has no settings for
CIFAR: those of the recipes are ours.
"""

from dataclasses import dataclass

from proco.methods.method import Method
from proco.methods.two_stage import Decoupled


@Method.registry.register("crt")
@dataclass(frozen=True, kw_only=True)
class Crt(Decoupled):
    """Cross-entropy, and then a new classifier on the frozen backbone from batches of even classes."""

    source = "Kang et al., Decoupling representation and classifier for long-tailed recognition, ICLR 2020"
    second_renewed = ("classifier",)
