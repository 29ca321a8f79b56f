"""Seeds of purposes."""

import torch

from proco.training.seeds import generator_for, seed_for


def test_seeds_are_the_same_on_every_machine() -> None:
    assert seed_for(0, 0, "order") == 8264720975777680370


def test_seeds_differ_by_seed_epoch_and_purpose() -> None:
    seeds = {seed_for(seed, epoch, purpose) for seed in range(5) for epoch in range(5) for purpose in ("order", "view")}
    assert len(seeds) == 50
    assert seed_for(1, 23, "order") != seed_for(12, 3, "order")


def test_generators_repeat() -> None:
    first, second = (torch.rand(3, generator=generator_for(7, "weights")) for _ in range(2))
    assert torch.equal(first, second)
