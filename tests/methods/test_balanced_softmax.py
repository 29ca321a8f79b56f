"""Balanced softmax as a method: its loss is by the class counts, its prediction by the logits."""

import torch

from proco.methods.balanced_softmax import BalancedSoftmax
from proco.methods.method import Targets, Task
from proco.models.network import Outputs

COUNTS = torch.tensor([40, 10, 3])
TASK = Task(COUNTS, num_features=64, hidden=16, dim=8)
LABELS = torch.arange(12) % 3


def test_it_trains_by_the_counts_and_predicts_without_them() -> None:
    logits = torch.randn(12, 3)
    outputs = [Outputs(torch.zeros(12, 64), logits, None), Outputs(torch.zeros(12, 64), torch.randn(12, 3), None)]
    (stage,) = BalancedSoftmax().stages(TASK, 5)
    ((weight, term),) = stage.terms.values()
    shares = COUNTS * logits.exp() / (COUNTS * logits.exp()).sum(dim=1, keepdim=True)
    torch.testing.assert_close(
        weight * term(outputs, Targets.of(LABELS), None), -shares[range(12), LABELS].log().mean()
    )
    assert torch.equal(BalancedSoftmax().predict(outputs[0], COUNTS), logits)


def test_the_losses_of_each_image() -> None:
    each = BalancedSoftmax().criterion(TASK, "none")(torch.zeros(3, 3), torch.arange(3))
    torch.testing.assert_close(each, -(COUNTS / 53).log())
