"""Supervised contrast against loops over pairs, and its inequalities and edges."""

import math

import pytest
import torch
from torch import Tensor
from torch.nn.functional import normalize

from proco.losses import SupConLoss
from proco.losses.supcon import ContrastForm

FORMS: list[ContrastForm] = ["in", "out"]


def batch(size: int = 12, classes: int = 3) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    embeddings = normalize(torch.randn(size, 5, generator=generator, dtype=torch.float64), dim=1)
    return embeddings, torch.arange(size) % classes


def slow_loss(
    anchors: Tensor, labels: Tensor, others: Tensor, other_labels: Tensor, form: str, tau: float, same: bool
) -> float:
    """The paper's eqs. 2 and 3, pair by pair."""
    losses = []
    for i, (anchor, label) in enumerate(zip(anchors, labels, strict=True)):
        indices = [j for j in range(len(others)) if not (same and j == i)]
        weights = {j: math.exp(float(anchor @ others[j]) / tau) for j in indices}
        total = sum(weights.values())
        positives = [j for j in indices if other_labels[j] == label]
        if not positives:
            continue
        if form == "out":
            losses.append(-sum(math.log(weights[j] / total) for j in positives) / len(positives))
        else:
            losses.append(-math.log(sum(weights[j] / total for j in positives) / len(positives)))
    return sum(losses) / len(losses)


@pytest.mark.parametrize("form", FORMS)
def test_value_is_that_of_a_loop_over_pairs(form: ContrastForm) -> None:
    embeddings, labels = batch()
    found = SupConLoss(0.3, form=form)(embeddings, labels)
    assert found.item() == pytest.approx(slow_loss(embeddings, labels, embeddings, labels, form, 0.3, True), rel=1e-12)


@pytest.mark.parametrize("form", FORMS)
def test_separate_contrast_set(form: ContrastForm) -> None:
    embeddings, labels = batch()
    found = SupConLoss(0.3, form=form)(embeddings[:4], labels[:4], embeddings[4:], labels[4:])
    expected = slow_loss(embeddings[:4], labels[:4], embeddings[4:], labels[4:], form, 0.3, False)
    assert found.item() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("form", FORMS)
def test_anchors_that_stand_in_the_contrast_set_leave_themselves_out(form: ContrastForm) -> None:
    embeddings, labels = batch()
    criterion = SupConLoss(0.3, form=form, reduction="none")
    whole = criterion(embeddings, labels)
    found = criterion(embeddings[4:9], labels[4:9], embeddings, labels, 4)
    torch.testing.assert_close(found, whole[4:9], rtol=1e-12, atol=0)


def test_in_is_at_most_out() -> None:
    embeddings, labels = batch()
    inner, outer = (SupConLoss(0.1, form=form, reduction="none")(embeddings, labels) for form in FORMS)
    assert (inner <= outer + 1e-12).all()
    assert (inner < outer - 1e-3).any()


@pytest.mark.parametrize("form", FORMS)
def test_order_of_the_batch_does_not_matter(form: ContrastForm) -> None:
    embeddings, labels = batch()
    order = torch.randperm(12, generator=torch.Generator().manual_seed(1))
    criterion = SupConLoss(form=form)
    torch.testing.assert_close(criterion(embeddings[order], labels[order]), criterion(embeddings, labels))


@pytest.mark.parametrize("form", FORMS)
def test_anchors_without_positives_are_left_out(form: ContrastForm) -> None:
    embeddings, labels = batch()
    labels = labels.clone()
    labels[0] = 7  # alone in its class
    embeddings.requires_grad_()
    each = SupConLoss(form=form, reduction="none")(embeddings, labels)
    assert each[0] == 0
    assert (each[1:] > 0).all()
    mean = SupConLoss(form=form)(embeddings, labels)
    torch.testing.assert_close(mean, each.sum() / 11)
    assert torch.autograd.grad(mean, embeddings)[0].isfinite().all()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("labels", [torch.arange(6), torch.zeros(6, dtype=torch.int64)], ids=["no pairs", "one class"])
def test_degenerate_batches_are_finite(form: ContrastForm, labels: Tensor) -> None:
    embeddings = batch(6)[0].requires_grad_()
    loss = SupConLoss(form=form)(embeddings, labels)
    assert loss.isfinite()
    assert torch.autograd.grad(loss, embeddings)[0].isfinite().all()


@pytest.mark.parametrize("form", FORMS)
def test_gradient_and_compile(form: ContrastForm) -> None:
    embeddings, labels = batch(8)
    embeddings.requires_grad_()
    criterion = SupConLoss(0.2, form=form)
    assert torch.autograd.gradcheck(lambda z: criterion(z, labels), (embeddings,))
    compiled = torch.compile(criterion, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(embeddings, labels), criterion(embeddings, labels))


@pytest.mark.parametrize("form", FORMS)
def test_autocast_keeps_float32(form: ContrastForm) -> None:
    embeddings, labels = batch()
    criterion = SupConLoss(0.05, form=form)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = criterion(embeddings.float(), labels)
    torch.testing.assert_close(found, criterion(embeddings.float(), labels))
    assert found.dtype == torch.float32


def test_wrong_input_is_explained() -> None:
    with pytest.raises(ValueError, match="unknown form 'both'; choose from in, out"):
        SupConLoss(form="both")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="temperature must be positive and finite; got 0"):
        SupConLoss(0)
    with pytest.raises(ValueError, match="temperature must be positive and finite; got inf"):
        SupConLoss(math.inf)
    embeddings, labels = batch()
    with pytest.raises(ValueError, match=r"labels must have shape \(12,\), one per sample; got \(12, 1\)"):
        SupConLoss()(embeddings, labels[:, None])
    with pytest.raises(ValueError, match="go together"):
        SupConLoss()(embeddings, labels, embeddings)
    with pytest.raises(ValueError, match=r"contrast must have shape \(N, 5\); got \(12, 4\)"):
        SupConLoss()(embeddings, labels, embeddings[:, :4], labels)


def test_reductions_of_each_loss() -> None:
    embeddings, labels = batch()
    each = SupConLoss(reduction="none")(embeddings, labels)
    torch.testing.assert_close(SupConLoss(reduction="sum")(embeddings, labels), each.sum())


def test_contrast_needs_a_label_each() -> None:
    embeddings, labels = batch()
    with pytest.raises(ValueError, match=r"contrast_labels must have shape \(12,\)"):
        SupConLoss()(embeddings[:4], labels[:4], embeddings, labels[:1])
