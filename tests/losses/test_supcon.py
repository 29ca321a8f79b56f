"""Supervised contrast against loops over pairs, its inequalities and edges, and the same with priors as margins."""

import math

import pytest
import torch
from torch import Tensor
from torch.nn.functional import normalize

from proco.losses import SupConLoss
from proco.losses.contrast_form import ContrastForm

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
    long, kinds = 5 * torch.eye(4), torch.tensor([0, 0, 1, 1])
    with pytest.raises(ValueError, match=r"embeddings must have length 1; 4 of 4 have not, the first has 5\."):
        SupConLoss(validate=True)(long, kinds)
    with pytest.raises(ValueError, match="contrast must have length 1"):
        SupConLoss(validate=True)(torch.eye(4), kinds, long, kinds)
    assert SupConLoss(validate=True)(torch.eye(4), kinds).isfinite()
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


COUNTS = [60, 25, 4]


@pytest.mark.parametrize("form", FORMS)
def test_class_counts_multiply_every_exponential_by_the_prior_of_its_class(form: ContrastForm) -> None:
    embeddings, labels = batch()
    losses = []
    for i, label in enumerate(labels.tolist()):
        others = [a for a in range(12) if a != i]
        weights = {
            a: COUNTS[int(labels[a])] / 89 * math.exp(float(embeddings[i] @ embeddings[a]) / 0.3) for a in others
        }
        ratios = [weights[a] / sum(weights.values()) for a in others if labels[a] == label]
        if form == "out":
            losses.append(-sum(map(math.log, ratios)) / len(ratios))
        else:
            losses.append(-math.log(sum(ratios) / len(ratios)))
    found = SupConLoss(0.3, form=form, class_counts=COUNTS)(embeddings, labels)
    assert found.item() == pytest.approx(sum(losses) / 12, rel=1e-12)


@pytest.mark.parametrize("form", FORMS)
def test_equal_counts_do_nothing_and_uneven_ones_ask_more_of_the_rare(form: ContrastForm) -> None:
    embeddings, labels = batch()
    plain = SupConLoss(0.3, form=form, reduction="none")(embeddings, labels)
    equal, uneven = (
        SupConLoss(0.3, form=form, class_counts=counts, reduction="none")(embeddings, labels)
        for counts in ([9, 9, 9], COUNTS)
    )
    torch.testing.assert_close(equal, plain)
    assert (uneven[labels == 0] < plain[labels == 0]).all()
    assert (uneven[labels == 2] > plain[labels == 2]).all()


@pytest.mark.parametrize("form", FORMS)
def test_class_counts_with_the_batch_of_all_ranks(form: ContrastForm) -> None:
    embeddings, labels = batch()
    criterion = SupConLoss(0.3, form=form, class_counts=COUNTS, reduction="none")
    whole = criterion(embeddings, labels)
    found = criterion(embeddings[4:9], labels[4:9], embeddings, labels, 4)
    torch.testing.assert_close(found, whole[4:9], rtol=1e-12, atol=0)


@pytest.mark.parametrize("form", FORMS)
def test_class_counts_and_anchors_without_positives(form: ContrastForm) -> None:
    embeddings, labels = batch()
    labels = labels.clone()
    labels[labels == 2] = 0
    labels[5] = 2  # alone in its class
    embeddings.requires_grad_()
    each = SupConLoss(form=form, class_counts=COUNTS, reduction="none")(embeddings, labels)
    assert each[5] == 0
    assert torch.autograd.grad(each.sum(), embeddings)[0].isfinite().all()
    absent = SupConLoss(form=form, class_counts=[*COUNTS, 1])(embeddings, labels)  # no image of the fourth class
    torch.testing.assert_close(absent, each.sum() / 11)


@pytest.mark.parametrize("form", FORMS)
def test_class_counts_gradient_state_and_compile(form: ContrastForm) -> None:
    embeddings, labels = batch(8)
    embeddings.requires_grad_()
    criterion = SupConLoss(0.2, form=form, class_counts=COUNTS)
    assert torch.autograd.gradcheck(lambda z: criterion(z, labels), (embeddings,))
    compiled = torch.compile(criterion, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(embeddings, labels), criterion(embeddings, labels))
    other = SupConLoss(0.2, form=form, class_counts=[1, 1, 1])
    other.load_state_dict(criterion.state_dict())
    assert other(embeddings, labels) == criterion(embeddings, labels)
    assert criterion.half().class_counts.dtype == torch.float32


def test_without_class_counts_there_is_no_state_and_labels_are_any_numbers() -> None:
    embeddings, labels = batch()
    assert not SupConLoss().state_dict()
    assert torch.equal(SupConLoss()(embeddings, labels), SupConLoss()(embeddings, 100 * labels - 7))


def test_labels_beyond_the_class_counts_are_refused() -> None:
    embeddings, labels = batch()
    with pytest.raises(ValueError, match=r"labels must lie in \[0, 1\]; got 2"):
        SupConLoss(class_counts=[3, 2])(embeddings, labels)
    with pytest.raises(ValueError, match=r"contrast_labels must lie in \[0, 1\]; got 2"):
        SupConLoss(class_counts=[3, 2])(embeddings[:2], labels[:2], embeddings, labels)
    with pytest.raises(ValueError, match="class_counts must be positive: class 1 has 0"):
        SupConLoss(class_counts=[3, 0])
