"""Distillation against its definition."""

import pytest
import torch

from proco.methods.distillation import Distillation
from proco.methods.method import Targets
from proco.models.network import Outputs

COUNTS = torch.tensor([40, 10, 3])
LABELS = torch.tensor([0, 0, 1, 2])


@pytest.mark.parametrize("temperature", [1.0, 3.0])
def test_it_is_the_divergence_from_what_the_teacher_says_of_the_first_view(temperature: float) -> None:
    logits, taught, other = torch.randn(4, 3, requires_grad=True), torch.randn(4, 3), torch.randn(4, 3)
    outputs = [Outputs(torch.zeros(4, 8), view, None) for view in (logits, other)]
    prior = (COUNTS / COUNTS.sum()).log()
    term = Distillation(
        lambda outputs, counts: outputs.logits - (counts / counts.sum()).log(), COUNTS, temperature=temperature
    )
    value = term(outputs, Targets.of(LABELS)._replace(teacher_scores=taught), None)
    expected = 0.0
    for own, its in zip(logits.detach() - prior, taught, strict=True):
        p, q = (row.div(temperature).softmax(0) for row in (its, own))
        expected += float((p * (p / q).log()).sum()) * temperature**2 / 4
    assert value.item() == pytest.approx(expected, rel=1e-5)
    value.backward()
    p, q = (rows.div(temperature).softmax(1) for rows in (taught, logits.detach() - prior))
    torch.testing.assert_close(logits.grad, (q - p) * temperature / 4)
