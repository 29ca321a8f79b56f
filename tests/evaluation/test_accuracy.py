"""Counts against a loop, and accuracies on cases done by hand."""

import math

import pytest
import torch

from proco.evaluation.accuracy import balanced_accuracy, count_hits, per_class_accuracy, top1

# 4 of 5, 1 of 2 and 0 of 1 right; the last class has no sample.
HITS = torch.tensor([[5, 2, 1, 0], [4, 1, 0, 0]])


def test_counts_are_those_of_a_loop(device: torch.device) -> None:
    generator = torch.Generator().manual_seed(0)
    predictions, labels = torch.randint(5, (2, 300), generator=generator)
    expected = torch.zeros(2, 5, dtype=torch.int64)
    for prediction, label in zip(predictions.tolist(), labels.tolist(), strict=True):
        expected[0, label] += 1
        expected[1, label] += prediction == label
    found = count_hits(predictions.to(device), labels.to(device), 5)
    assert found.dtype == torch.int64
    assert torch.equal(found.cpu(), expected)


def test_batches_add_up() -> None:
    predictions, labels = torch.randint(4, (2, 50), generator=torch.Generator().manual_seed(1))
    parts = sum(count_hits(p, y, 4) for p, y in zip(predictions.split(17), labels.split(17), strict=True))
    assert isinstance(parts, torch.Tensor)
    assert torch.equal(parts, count_hits(predictions, labels, 4))
    assert torch.equal(count_hits(predictions.int(), labels.int(), 4), parts)


def test_accuracies_by_hand() -> None:
    torch.testing.assert_close(
        per_class_accuracy(HITS), torch.tensor([0.8, 0.5, 0, math.nan], dtype=torch.float64), equal_nan=True
    )
    assert top1(HITS).item() == 5 / 8
    assert balanced_accuracy(HITS).item() == pytest.approx(1.3 / 3)


def test_nothing_has_no_accuracy() -> None:
    nothing = count_hits(torch.zeros(0, dtype=torch.int64), torch.zeros(0, dtype=torch.int64), 3)
    assert nothing.sum() == 0
    for measure in (top1, balanced_accuracy):
        assert measure(nothing).isnan()


@pytest.mark.parametrize(
    ("predictions", "labels", "wrong"),
    [([0, 3], [0, 1], "predictions"), ([0, 1], [0, 3], "labels"), ([0, -1], [0, 1], "predictions")],
)
def test_classes_out_of_range_are_refused(predictions: list[int], labels: list[int], wrong: str) -> None:
    with pytest.raises(ValueError, match=rf"^{wrong} must lie in \[0, 2\]; got"):
        count_hits(torch.tensor(predictions), torch.tensor(labels), 3)
