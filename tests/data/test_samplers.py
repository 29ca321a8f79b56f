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
