"""Agreement between views and between experts against its definition."""

import pytest
import torch

from proco.methods.agreement import Agreement, Distillation, ExpertAgreement
from proco.methods.method import Targets
from proco.models.network import Outputs

COUNTS = torch.tensor([40, 10, 3])
LABELS = torch.tensor([0, 0, 1, 2])
CLASSIFIER = None  # none of the terms looks at it


def view(seed: int, experts: int = 1) -> Outputs:
    generator = torch.Generator().manual_seed(seed)
    return together(torch.randn(4, experts, 3, generator=generator))


def together(logits: torch.Tensor) -> Outputs:
    experts = tuple(Outputs(torch.zeros(4, 8), own, None) for own in logits.unbind(dim=1))
    return Outputs(torch.zeros(4, 8 * len(experts)), logits.mean(dim=1), None, experts)


def test_agreement_is_a_divergence_from_views_that_are_right() -> None:
    first, other = view(0), view(1)
    prior = COUNTS / COUNTS.sum()
    p = (other.logits.exp() * prior) / (other.logits.exp() * prior).sum(1, keepdim=True)
    q = (first.logits.exp() * prior) / (first.logits.exp() * prior).sum(1, keepdim=True)
    share = torch.tensor([1.0, 1.0, 1.0, 0.5])
    counts = (p.argmax(1) == LABELS) & (share == 1)
    assert counts.any()
    assert not counts.all()
    expected = ((p * (p / q).log()).sum(1) * counts).mean()
    term = Agreement(COUNTS, tau=1.0, ramp=4)
    targets = Targets.of(LABELS)._replace(share=share)
    assert term([first, other], targets, CLASSIFIER) == 0
    for epoch in range(1, 6):
        term.start_epoch()
        torch.testing.assert_close(term([first, other], targets, CLASSIFIER), expected * min(epoch / 4, 1))


def test_agreement_is_under_the_prior_as_far_as_logits_are_adjusted() -> None:
    """Views that say the same as far as the prior goes agree; those whose adjustment is not known do not."""
    said = torch.tensor([[0.3, 0.2, 0.5]] * 4)
    for tau in (0.0, 2.0):
        adjusted = said.log() - tau * (COUNTS / COUNTS.sum()).log()
        outputs = [Outputs(torch.zeros(4, 8), logits, None) for logits in (torch.zeros(4, 3), adjusted)]
        term = Agreement(COUNTS, tau=tau, ramp=1)
        term.start_epoch()
        first = ((COUNTS / COUNTS.sum()) ** tau).double()
        expected = (said[0] * (said[0] / (first / first.sum())).log()).sum()
        value = term(outputs, Targets.of(torch.full((4,), 2)), CLASSIFIER)
        torch.testing.assert_close(value, expected.float())


def test_agreement_moves_the_first_view_only() -> None:
    logits = [torch.randn(4, 3, requires_grad=True) for _ in range(2)]
    term = Agreement(COUNTS, tau=1.0, ramp=1)
    term.start_epoch()
    outputs = [Outputs(torch.zeros(4, 8), value, None) for value in logits]
    labels = logits[1].detach().add((COUNTS / COUNTS.sum()).log()).argmax(1)
    term(outputs, Targets.of(labels), CLASSIFIER).backward()
    assert logits[0].grad is not None
    assert logits[1].grad is None


@pytest.mark.parametrize("temperature", [1.0, 3.0])
def test_experts_agree_with_all_together(temperature: float) -> None:
    taus = [0.0, 1.0, 2.0]
    views = [view(0, experts=3), view(1, experts=3)]
    log_prior = (COUNTS / COUNTS.sum()).log()
    expected = 0.0
    for row in zip(*(expert.logits for expert in views[0].experts), strict=True):
        adjusted = [(z + tau * log_prior) / temperature for z, tau in zip(row, taus, strict=True)]
        mean = (sum(adjusted) / 3).softmax(0)
        for own in adjusted:
            expected += (mean * (mean.log() - own.log_softmax(0))).sum() / 4
    term = ExpertAgreement(COUNTS, taus=taus, temperature=temperature)
    torch.testing.assert_close(term(views, Targets.of(LABELS), CLASSIFIER), temperature**2 * expected)


def test_equal_experts_agree() -> None:
    outputs = together(view(0).logits[:, None].expand(4, 2, 3))
    term = ExpertAgreement(COUNTS, taus=[1.0, 1.0], temperature=3.0)
    assert float(term([outputs], Targets.of(LABELS), CLASSIFIER)) == pytest.approx(0, abs=1e-6)


def test_all_together_are_not_moved_by_an_expert() -> None:
    """The gradient of an expert's logits is that of its own divergence: (p_expert - p_all) T / N."""
    logits = torch.randn(4, 2, 3, requires_grad=True)
    outputs = together(logits)
    ExpertAgreement(COUNTS, taus=[1.0, 1.0], temperature=2.0)([outputs], Targets.of(LABELS), CLASSIFIER).backward()
    softened = (logits.detach() + (COUNTS / COUNTS.sum()).log()) / 2
    of_all = softened.mean(dim=1, keepdim=True).softmax(dim=2)
    torch.testing.assert_close(logits.grad, (softened.softmax(dim=2) - of_all) * 2 / 4)


@pytest.mark.parametrize("temperature", [1.0, 3.0])
def test_distillation_is_the_divergence_from_what_the_teacher_says(temperature: float) -> None:
    logits, taught = torch.randn(4, 3, requires_grad=True), torch.randn(4, 3)
    outputs = [Outputs(torch.zeros(4, 8), logits, None), view(1)]
    prior = (COUNTS / COUNTS.sum()).log()
    term = Distillation(
        lambda outputs, counts: outputs.logits - (counts / counts.sum()).log(), COUNTS, temperature=temperature
    )
    value = term(outputs, Targets.of(LABELS)._replace(taught=taught), CLASSIFIER)
    expected = 0.0
    for own, its in zip(logits.detach() - prior, taught, strict=True):
        p, q = (row.div(temperature).softmax(0) for row in (its, own))
        expected += float((p * (p / q).log()).sum()) * temperature**2 / 4
    assert value.item() == pytest.approx(expected, rel=1e-5)
    value.backward()
    p, q = (rows.div(temperature).softmax(1) for rows in (taught, logits.detach() - prior))
    torch.testing.assert_close(logits.grad, (q - p) * temperature / 4)
