"""Balanced contrast against loops over pairs, its relation to supervised contrast, and its edges."""

import math

import pytest
import torch
from torch import Tensor
from torch.nn.functional import normalize

from proco.losses import BalancedContrastiveLoss, SupConLoss

NUM_CLASSES = 4


def batch(size: int = 12, classes: int = 3) -> tuple[Tensor, Tensor, Tensor]:
    """Embeddings, labels (class 0 twice as often as the others; the last class absent) and centres."""
    generator = torch.Generator().manual_seed(0)
    embeddings = normalize(torch.randn(size, 5, generator=generator, dtype=torch.float64), dim=1)
    centres = normalize(torch.randn(NUM_CLASSES, 5, generator=generator, dtype=torch.float64), dim=1)
    return embeddings, (torch.arange(size) % (classes + 1)) % classes, centres


def slow_loss(
    anchors: Tensor, labels: list[int], members: Tensor, member_labels: list[int], offset: int | None, tau: float
) -> list[float]:
    """BCL's equation anchor by anchor; members are the contrast set with the centres behind it."""
    losses = []
    for i, (anchor, label) in enumerate(zip(anchors, labels, strict=True)):
        indices = [a for a in range(len(members)) if offset is None or a != offset + i]
        denominator = 0.0
        for j in set(member_labels):
            of_class = [math.exp(float(anchor @ members[a]) / tau) for a in indices if member_labels[a] == j]
            denominator += sum(of_class) / len(of_class)
        positives = [a for a in indices if member_labels[a] == label]
        terms = [float(anchor @ members[a]) / tau - math.log(denominator) for a in positives]
        losses.append(-sum(terms) / len(positives))
    return losses


def test_value_is_that_of_a_loop_over_classes_and_pairs() -> None:
    embeddings, labels, centres = batch()
    members, member_labels = torch.cat([embeddings, centres]), [*labels.tolist(), *range(NUM_CLASSES)]
    expected = slow_loss(embeddings, labels.tolist(), members, member_labels, 0, 0.3)
    found = BalancedContrastiveLoss(0.3, reduction="none")(embeddings, labels, centres)
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64), rtol=1e-12, atol=0)
    mean = BalancedContrastiveLoss(0.3)(embeddings, labels, centres)
    assert mean.item() == pytest.approx(sum(expected) / 12, rel=1e-12)


@pytest.mark.parametrize("offset", [None, 0, 3])
def test_contrast_set_with_and_without_the_anchors(offset: int | None) -> None:
    embeddings, labels, centres = batch()
    start = 8 if offset is None else offset
    anchors, anchor_labels = embeddings[start : start + 4], labels[start : start + 4]
    contrast, contrast_labels = embeddings[:8], labels[:8]
    members, member_labels = torch.cat([contrast, centres]), [*contrast_labels.tolist(), *range(NUM_CLASSES)]
    expected = slow_loss(anchors, anchor_labels.tolist(), members, member_labels, offset, 0.3)
    found = BalancedContrastiveLoss(0.3)(anchors, anchor_labels, centres, contrast, contrast_labels, offset)
    assert found.item() == pytest.approx(sum(expected) / 4, rel=1e-12)


def test_an_anchor_alone_in_its_class_has_its_centre() -> None:
    """What the centres are for: a rare class is pulled together in batches that have one image of it."""
    embeddings, _, centres = batch(4)
    labels = torch.tensor([0, 0, 1, 2])
    members, member_labels = torch.cat([embeddings, centres]), [*labels.tolist(), *range(NUM_CLASSES)]
    found = BalancedContrastiveLoss(0.3, reduction="none")(embeddings, labels, centres)
    expected = slow_loss(embeddings, labels.tolist(), members, member_labels, 0, 0.3)
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64), rtol=1e-12, atol=0)


def test_denominator_without_similarities_is_the_number_of_classes() -> None:
    vectors = torch.eye(10, dtype=torch.float64)
    labels = torch.tensor([0, 0, 0, 1, 1, 2])
    each = BalancedContrastiveLoss(0.1, reduction="none")(vectors[:6], labels, vectors[6:])
    torch.testing.assert_close(each, torch.full((6,), math.log(NUM_CLASSES), dtype=torch.float64), rtol=1e-14, atol=0)


def test_classes_of_equal_size_only_shift_supervised_contrast() -> None:
    # With m members of every class, the mean over a class is its sum over m: L = SupCon_out - log m.
    embeddings, labels, centres = batch()
    contrast, contrast_labels = embeddings[:8], torch.arange(8) % NUM_CLASSES
    found = BalancedContrastiveLoss(0.2)(embeddings, labels, centres, contrast, contrast_labels)
    members = torch.cat([contrast, centres])
    supervised = SupConLoss(0.2)(embeddings, labels, members, torch.cat([contrast_labels, torch.arange(4)]))
    assert found.item() == pytest.approx(supervised.item() - math.log(3), rel=1e-12)


def test_one_class_is_shifted_supervised_contrast_too() -> None:
    embeddings, _, centres = batch()
    labels = torch.zeros(12, dtype=torch.int64)
    found = BalancedContrastiveLoss(0.2)(embeddings, labels, centres[:1])
    members = torch.cat([embeddings, centres[:1]])
    supervised = SupConLoss(0.2)(embeddings, labels, members, torch.zeros(13, dtype=torch.int64), 0)
    assert found.item() == pytest.approx(supervised.item() - math.log(12), rel=1e-12)


def test_names_of_classes_and_order_of_the_batch_do_not_matter() -> None:
    embeddings, labels, centres = batch()
    order = torch.randperm(12, generator=torch.Generator().manual_seed(1))
    renamed = torch.tensor([2, 0, 3, 1])
    criterion = BalancedContrastiveLoss()
    found = criterion(embeddings[order], renamed[labels[order]], centres[renamed.argsort()])
    torch.testing.assert_close(found, criterion(embeddings, labels, centres))


def test_gradient_and_compile() -> None:
    embeddings, labels, centres = batch(8)
    embeddings.requires_grad_()
    centres.requires_grad_()
    criterion = BalancedContrastiveLoss(0.2)
    assert torch.autograd.gradcheck(lambda z, c: criterion(z, labels, c), (embeddings, centres))
    assert torch.autograd.gradcheck(lambda z, c: criterion(z[2:5], labels[2:5], c, z, labels, 2), (embeddings, centres))
    compiled = torch.compile(criterion, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(embeddings, labels, centres), criterion(embeddings, labels, centres))


def test_autocast_keeps_float32() -> None:
    embeddings, labels, centres = batch()
    inputs = embeddings.float(), labels, centres.float()
    criterion = BalancedContrastiveLoss(0.05)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = criterion(*inputs)
    torch.testing.assert_close(found, criterion(*inputs))
    assert found.dtype == torch.float32


def test_no_batch_gives_no_loss() -> None:
    embeddings, labels, centres = batch()
    assert BalancedContrastiveLoss()(embeddings[:0], labels[:0], centres) == 0


def test_wrong_input_is_explained() -> None:
    embeddings, labels, centres = batch()
    with pytest.raises(ValueError, match="temperature must be positive and finite; got 0"):
        BalancedContrastiveLoss(0)
    with pytest.raises(ValueError, match="unknown reduction 'average'"):
        BalancedContrastiveLoss(reduction="average")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"centres must have shape \(N, 5\); got \(4, 3\)"):
        BalancedContrastiveLoss()(embeddings, labels, centres[:, :3])
    with pytest.raises(ValueError, match=r"^labels must lie in \[0, 1\]; got 2"):
        BalancedContrastiveLoss()(embeddings, labels, centres[:2])
    with pytest.raises(ValueError, match=r"contrast_labels must lie in \[0, 3\]; got 9"):
        BalancedContrastiveLoss()(embeddings, labels, centres, embeddings[:1], torch.tensor([9]))
    with pytest.raises(ValueError, match="embeddings must have length 1"):
        BalancedContrastiveLoss(validate=True)(2 * embeddings, labels, centres)
    with pytest.raises(ValueError, match="centres must have length 1"):
        BalancedContrastiveLoss(validate=True)(embeddings, labels, 2 * centres)


def test_sum_is_that_of_each_loss() -> None:
    embeddings, labels, centres = batch()
    each = BalancedContrastiveLoss(reduction="none")(embeddings, labels, centres)
    torch.testing.assert_close(BalancedContrastiveLoss(reduction="sum")(embeddings, labels, centres), each.sum())
