"""Samplers: what each promises of an epoch, over all of them and one by one."""

import pytest
import torch
from torch import Tensor

from proco.data.samplers import SAMPLERS

COUNTS = torch.tensor([400, 100, 20, 5])
LABELS = torch.arange(4).repeat_interleave(COUNTS)


def epoch(name: str, seed: int = 0, labels: Tensor = LABELS) -> Tensor:
    return SAMPLERS[name](labels, torch.Generator().manual_seed(seed))


def shares(name: str) -> Tensor:
    """Class frequencies over a hundred epochs."""
    drawn = torch.cat([LABELS[epoch(name, seed)] for seed in range(100)])
    return drawn.bincount(minlength=4) / len(drawn)


@pytest.mark.parametrize("name", SAMPLERS)
def test_positions_are_valid_and_repeatable(name: str) -> None:
    positions = epoch(name)
    assert positions.dtype == torch.int64
    assert positions.min() >= 0
    assert positions.max() < len(LABELS)
    assert torch.equal(positions, epoch(name))
    assert not torch.equal(positions, epoch(name, seed=1))


@pytest.mark.parametrize("name", SAMPLERS)
def test_gaps_in_the_labels_do_no_harm(name: str) -> None:
    labels = torch.tensor([0, 0, 0, 5, 5]).repeat(20)
    assert set(labels[epoch(name, labels=labels)].tolist()) == {0, 5}


def test_instance_takes_every_sample_once() -> None:
    assert torch.equal(epoch("instance").sort().values, torch.arange(len(LABELS)))


@pytest.mark.parametrize(
    ("name", "mass"),
    [
        ("class_balanced", torch.ones(4)),
        ("square_root", COUNTS.sqrt()),
        ("reverse", 1 / COUNTS),
        ("effective_number", COUNTS * (1 - 0.9999) / (1 - 0.9999**COUNTS)),
    ],
)
def test_classes_are_drawn_by_their_mass(name: str, mass: Tensor) -> None:
    expected = mass / mass.sum()
    deviation = (expected * (1 - expected) / (100 * len(LABELS))).sqrt()
    assert ((shares(name) - expected).abs() < 5 * deviation).all()
    assert len(epoch(name)) == len(LABELS)


@pytest.mark.parametrize("name", ["class_balanced", "square_root", "reverse", "effective_number"])
def test_samples_of_a_class_are_drawn_alike(name: str) -> None:
    drawn = torch.cat([epoch(name, seed) for seed in range(200)])
    rare = drawn[LABELS[drawn] == 3].bincount(minlength=len(LABELS))[-5:].double()
    assert (rare - rare.mean()).abs().max() < 5 * rare.mean().sqrt()


def test_class_aware_epoch_is_flat_and_comes_in_runs() -> None:
    positions = epoch("class_aware")
    assert len(positions) == 400 * 4
    assert LABELS[positions].bincount().tolist() == [400] * 4
    runs = LABELS[positions].view(-1, 4)
    assert (runs == runs[:, :1]).all()
    # The smallest class runs through all of its samples before it repeats one.
    rare = positions[LABELS[positions] == 3]
    assert all(len(set(chunk.tolist())) == 5 for chunk in rare.split(5))


@pytest.mark.parametrize("counts", [[5, 2], [3, 1, 1], [1, 1], [7, 7, 2], [450, 9, 4]])
def test_class_aware_epochs_give_every_class_as_many_as_the_largest(counts: list[int]) -> None:
    labels = torch.arange(len(counts)).repeat_interleave(torch.tensor(counts))
    drawn = torch.bincount(labels[epoch("class_aware", labels=labels)], minlength=len(counts))
    assert drawn.tolist() == [max(counts)] * len(counts)


def test_class_aware_shuffles_the_classes_in_every_turn() -> None:
    labels = torch.arange(6).repeat_interleave(8)
    turns = labels[epoch("class_aware", labels=labels)].view(2, 6, 4)[..., 0]
    assert all(sorted(turn.tolist()) == list(range(6)) for turn in turns)
    assert not torch.equal(turns[0], turns[1])
    assert not torch.equal(turns[0], torch.arange(6))


def test_class_aware_shuffles_samples_anew_when_a_class_begins_again() -> None:
    labels = torch.tensor([0] * 64 + [1] * 8)
    positions = epoch("class_aware", labels=labels)
    passes = positions[labels[positions] == 1].view(8, 8)
    assert all(len(set(once.tolist())) == 8 for once in passes)
    assert len({tuple(once.tolist()) for once in passes}) == 8
