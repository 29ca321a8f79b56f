"""The terms of a classifier: an image of two classes against a loop over both, with weights of classes and without."""

import pytest
import torch
from tests.methods.small import COUNTS, LABELS, TASK, make_network, outputs_of
from torch import nn

from proco.losses import FocalLoss, InverseFrequencyLoss, LdamLoss
from proco.methods import Method
from proco.methods.classification import Classification, SharedClassification
from proco.methods.method import Targets
from proco.methods.one_branch import is_loss_alone

SHARES = torch.tensor([1.0, 0.25, 0.5, 0.9, 0.0, 0.3, 0.6, 0.75])
OTHERS = LABELS.flip(0)
WEIGHTS = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0])


def ldam() -> LdamLoss:
    criterion = LdamLoss(COUNTS, reduction="none")
    criterion.class_weights.copy_(WEIGHTS)
    return criterion


@pytest.mark.parametrize(
    ("criterion", "weights"),
    [
        (FocalLoss(1.0, reduction="none"), torch.ones(5)),
        (InverseFrequencyLoss(COUNTS, power=1.0, reduction="none"), 5 / COUNTS / (1 / COUNTS).sum()),
        (ldam(), WEIGHTS),
    ],
    ids=["plain", "by frequency", "by given weights"],
)
def test_both_classes_count_by_what_is_seen_of_them(criterion: nn.Module, weights: torch.Tensor) -> None:
    outputs = outputs_of(make_network(), 1)
    value = SharedClassification(criterion)(
        outputs, Targets.of(LABELS)._replace(other_labels=OTHERS, share=SHARES), nn.Identity()
    )
    total, sum_of_weights = torch.zeros(()), 0.0
    for logits, share, y, other in zip(outputs[0].logits, SHARES.tolist(), LABELS, OTHERS, strict=True):
        for part, label in ((share, y), (1 - share, other)):
            total = total + part * criterion(logits[None], label[None])[0]  # what a class weighs is in it
            sum_of_weights += part * float(weights[label])
    torch.testing.assert_close(value, total / sum_of_weights)


@pytest.mark.parametrize("name", [name for name, kind in Method.registry.items() if is_loss_alone(kind)])
def test_of_images_as_they_are_it_is_the_plain_term(name: str) -> None:
    method = Method.registry[name]()
    network = make_network(method)
    outputs = outputs_of(network, 1)
    shared, plain = SharedClassification(method.criterion(TASK, "none")), Classification(method.criterion(TASK))  # type: ignore[attr-defined]
    values = [term(outputs, Targets.of(LABELS), network.classifier) for term in (shared, plain)]
    torch.testing.assert_close(*values)
