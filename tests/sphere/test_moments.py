"""Class statistics: two windows, any order and split of the updates, and a defined state of classes never seen."""

import copy
import math

import pytest
import torch
from torch import Tensor
from torch.nn.functional import normalize

from proco.sphere import ClassMoments
from proco.sphere.moments import class_sums


def batch(size: int = 64, seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    embeddings = normalize(torch.randn(size, 8, generator=generator), dim=1)
    return embeddings, torch.randint(4, (size,), generator=generator)


def loop_means(embeddings: Tensor, labels: Tensor) -> Tensor:
    return torch.stack([embeddings[labels == c].mean(0) for c in range(4)])


def test_mean_and_length_are_those_of_a_loop_over_classes() -> None:
    moments = ClassMoments(5, 8)
    embeddings, labels = batch()
    moments.update(embeddings, labels)
    expected = loop_means(embeddings, labels)
    torch.testing.assert_close(moments.mean()[:4], expected)
    torch.testing.assert_close(moments.mean_length()[:4], expected.norm(dim=1))
    torch.testing.assert_close(moments.mean_direction()[:4], normalize(expected, dim=1))


def test_moments_do_not_depend_on_the_split_or_the_order_of_updates() -> None:
    embeddings, labels = batch()
    whole, parts = ClassMoments(5, 8), ClassMoments(5, 8)
    whole.update(embeddings, labels)
    for chunk in torch.randperm(64, generator=torch.Generator().manual_seed(1)).split(10):
        parts.update(embeddings[chunk], labels[chunk])
    torch.testing.assert_close(parts.state_dict(), whole.state_dict())


def test_estimation_window_is_the_last_epoch_and_this_one_so_far() -> None:
    moments = ClassMoments(4, 8)
    epochs = [batch(seed=seed) for seed in range(3)]
    for embeddings, labels in epochs:
        moments.start_epoch()
        moments.update(embeddings, labels)
    seen = torch.cat([epochs[1][0], epochs[2][0]]), torch.cat([epochs[1][1], epochs[2][1]])
    torch.testing.assert_close(moments.mean(), loop_means(*seen))
    torch.testing.assert_close(moments.counts, seen[1].bincount(minlength=4).int())
    moments.start_epoch()
    torch.testing.assert_close(moments.mean(), loop_means(*epochs[2]))
    assert moments.running_counts.sum() == 0


def test_estimation_window_may_hold_more_epochs() -> None:
    moments = ClassMoments(4, 8, past_epochs=3)
    epochs = [batch(seed=seed) for seed in range(6)]
    for number, (embeddings, labels) in enumerate(epochs):
        moments.start_epoch()
        moments.update(embeddings[:32], labels[:32])
        saved, moments = moments.state_dict(), ClassMoments(4, 8, past_epochs=3)
        moments.load_state_dict(saved)
        moments.update(embeddings[32:], labels[32:])
        seen = epochs[max(0, number - 3) : number + 1]
        expected = torch.cat([e for e, _ in seen]), torch.cat([y for _, y in seen])
        torch.testing.assert_close(moments.mean(), loop_means(*expected))
        assert moments.counts.sum() == 64 * len(seen)


def test_official_recursion_gives_the_same_means() -> None:
    """The count-weighted running mean of the paper's eq. 11, kept in two copies as the official code keeps it."""
    moments = ClassMoments(4, 8)
    old = {"mean": torch.zeros(4, 8), "count": torch.zeros(4)}
    new = copy.deepcopy(old)
    for epoch in range(2):
        moments.start_epoch()
        old, new = new, {"mean": torch.zeros(4, 8), "count": torch.zeros(4)}
        for step in range(3):
            embeddings, labels = batch(16, seed=10 * epoch + step)
            moments.update(embeddings, labels)
            for window in (old, new):
                for c in labels.unique():
                    rows = embeddings[labels == c]
                    share = len(rows) / (len(rows) + window["count"][c])
                    window["mean"][c] = window["mean"][c] * (1 - share) + rows.mean(0) * share
                    window["count"][c] += len(rows)
    torch.testing.assert_close(moments.mean(), old["mean"])
    torch.testing.assert_close(moments.counts.float(), old["count"])


def test_classes_never_seen_are_a_defined_state() -> None:
    moments = ClassMoments(6, 8)
    moments.update(*batch())
    for value in (moments.mean(), moments.mean_direction()):
        assert (value[4:] == 0).all()
    assert (moments.mean_length()[4:] == 0).all()
    assert (moments.counts[4:] == 0).all()


def test_empty_batch_changes_nothing() -> None:
    moments = ClassMoments(4, 8)
    moments.update(*batch())
    before = copy.deepcopy(moments.state_dict())
    moments.update(torch.zeros(0, 8), torch.zeros(0, dtype=torch.int64))
    torch.testing.assert_close(moments.state_dict(), before, rtol=0, atol=0)


def test_state_has_no_gradient_and_keeps_no_graph() -> None:
    moments = ClassMoments(4, 8)
    embeddings, labels = batch()
    moments.update(embeddings.requires_grad_(), labels)
    assert not moments.mean().requires_grad


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_models_do_not_coarsen_the_statistics(dtype: torch.dtype) -> None:
    moments = ClassMoments(4, 8).to(dtype)
    assert moments.sums.dtype == torch.float32
    embeddings, labels = batch()
    reference = ClassMoments(4, 8)
    for _ in range(20):
        moments.update(embeddings.to(dtype), labels)
        reference.update(embeddings.to(dtype), labels)
    before = moments.sums.clone()
    moments.to(dtype)
    assert torch.equal(moments.sums, before)
    torch.testing.assert_close(moments.state_dict(), reference.state_dict())
    assert ClassMoments(4, 8).double().sums.dtype == torch.float64


def test_wrong_sizes_are_refused() -> None:
    with pytest.raises(ValueError, match="at least 1; got 0, 8 and 1"):
        ClassMoments(0, 8)
    with pytest.raises(ValueError, match="past_epochs must be at least 1"):
        ClassMoments(4, 8, past_epochs=0)


def test_sums_of_classes_are_those_of_a_loop_without_what_is_not_finite() -> None:
    rows = torch.randn(7, 3, dtype=torch.float64)
    rows[2, 1], rows[5, 0] = math.inf, math.nan
    labels = torch.tensor([0, 0, 0, 2, 2, 3, 2])
    sums, counts = class_sums(rows, labels, 4)
    assert counts.tolist() == [2, 0, 3, 0]
    expected = torch.stack([rows[:2].sum(0), torch.zeros(3), rows[[3, 4, 6]].sum(0), torch.zeros(3)])
    torch.testing.assert_close(sums, expected)


def test_rows_that_are_not_finite_are_left_out() -> None:
    embeddings = normalize(torch.randn(6, 8, generator=torch.Generator().manual_seed(0)), dim=1)
    labels = torch.tensor([0, 1, 0, 1, 0, 1])
    broken = embeddings.clone()
    broken[0, 3], broken[1, 0], broken[2] = math.nan, math.inf, -math.inf
    found, expected = ClassMoments(2, 8), ClassMoments(2, 8)
    found.update(broken, labels)
    expected.update(embeddings[3:], labels[3:])
    torch.testing.assert_close(found.state_dict(), expected.state_dict(), rtol=0, atol=0)
    assert found.counts.tolist() == [1, 2]
