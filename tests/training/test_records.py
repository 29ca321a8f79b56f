"""What is written of an epoch, against the same written out."""

import pytest
import torch

from proco.training.records import best_of, means_of


def test_means_are_over_steps_and_the_loss_is_weighted() -> None:
    values = torch.tensor([[1.0, 4.0, 0.25], [3.0, 0.0, 0.75]])  # two losses and the accuracy
    means = means_of(values, ("a", "b"), torch.tensor([1.0, 0.5]))
    assert means == {"loss": pytest.approx(3.0), "losses": {"a": 2.0, "b": 2.0}, "accuracy": pytest.approx(50.0)}


def test_best_is_the_first_of_equals_among_those_evaluated() -> None:
    tops = {1: 40.0, 3: 42.0, 5: 42.0}
    records = [{"epoch": epoch} | ({"val": {"top1": tops[epoch]}} if epoch in tops else {}) for epoch in range(6)]
    assert best_of(records, "val") == {"best_epoch": 3, "best_top1": 42.0, "best_split": "val"}
