"""Balanced softmax as a method: what it shares with logit adjustment."""

import torch

from proco.methods.balanced_softmax import BalancedSoftmax
from proco.methods.logit_adjustment import LogitAdjustment
from proco.methods.method import Method, Targets, Task
from proco.models.network import Outputs

COUNTS = torch.tensor([40, 10, 3])
TASK = Task(COUNTS, num_features=64, hidden=16, dim=8)
LABELS = torch.arange(12) % 3


def test_it_trains_and_predicts_as_logit_adjustment_of_strength_one() -> None:
    logits = torch.randn(12, 3, requires_grad=True)
    outputs = [Outputs(torch.zeros(12, 64), logits, None), Outputs(torch.zeros(12, 64), torch.randn(12, 3), None)]

    def value_and_gradient(method: Method) -> tuple[torch.Tensor, torch.Tensor]:
        (stage,) = method.stages(TASK, 5)
        ((_, term),) = stage.terms.values()
        value = term(outputs, Targets.of(LABELS), None)
        return value, torch.autograd.grad(value, logits)[0]

    torch.testing.assert_close(value_and_gradient(BalancedSoftmax()), value_and_gradient(LogitAdjustment(tau=1.0)))
    assert torch.equal(BalancedSoftmax().predict(outputs[0], COUNTS), logits)


def test_the_losses_of_each_image() -> None:
    each = BalancedSoftmax().criterion(TASK, "none")(torch.zeros(3, 3), torch.arange(3))
    torch.testing.assert_close(each, -(COUNTS / 53).log())
