"""Running statistics: kept while something is computed, and taken anew."""

import copy

import pytest
import torch
from torch import nn

from proco.errors import ConfigError
from proco.models.running_statistics import (
    follow_the_batch,
    in_evaluation_mode,
    keep_running_statistics,
    running_statistics,
)
from proco.roles import DrawsOnly, FollowsBatches


def make() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.LazyLinear(5), nn.BatchNorm1d(5))


def batches(number: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(8, 3, 6, 6, generator=generator) + count for count in range(number)]


def test_statistics_follow_the_batch_until_the_block_ends() -> None:
    network = make()
    network(batches(1)[0])  # leaves something behind
    network.eval()
    first, last = batches(2)
    with follow_the_batch(network):
        network(first)
        network(last)
    hidden = network[0](last).transpose(0, 1).flatten(1)
    torch.testing.assert_close(network[1].running_mean, hidden.mean(1))
    torch.testing.assert_close(network[1].running_var, hidden.var(1))
    assert network[1].momentum == 0.1
    assert not network.training


def test_statistics_that_are_not_kept_are_not_listed() -> None:
    network = nn.Sequential(nn.BatchNorm1d(4), nn.BatchNorm1d(4, track_running_stats=False), nn.Linear(4, 4))
    mean, variance = running_statistics(network)
    assert mean is network[0].running_mean
    assert variance is network[0].running_var


def test_kept_statistics_stay_though_the_batch_normalises() -> None:
    network = make().train()
    network(batches(1)[0])
    twin = copy.deepcopy(network)
    images = batches(2)[1]
    with keep_running_statistics(network):
        kept = network(images)
    torch.testing.assert_close(kept, twin(images))
    assert not torch.allclose(twin[1].running_mean, network[1].running_mean)
    with keep_running_statistics(twin):
        before = copy.deepcopy(twin[1].running_mean)
        twin(images)
    assert torch.equal(twin[1].running_mean, before)
    assert network[1].momentum == 0.1


def test_norms_that_average_over_all_batches_cannot_keep() -> None:
    norm = nn.BatchNorm2d(4, momentum=None)
    with pytest.raises(ConfigError, match="without a momentum"), keep_running_statistics(norm):
        pass


def test_evaluation_mode_ends_with_the_block_and_spares_norms() -> None:
    network = make().train()
    network[1].eval()  # frozen
    with in_evaluation_mode(network):
        assert [part for part in network.modules() if part.training] == [network[4]]
    assert [part.training for part in network] == [True, False, True, True, True]
    assert network.training


def test_modes_and_momenta_are_given_back_as_they_were() -> None:
    network = nn.Sequential(nn.BatchNorm1d(2, momentum=0.3), nn.Dropout(), nn.Linear(2, 2)).train()
    network[1].eval()  # frozen
    with in_evaluation_mode(network):
        pass
    assert [part.training for part in network] == [True, False, True]
    with follow_the_batch(network):
        assert network[0].momentum == 1.0
    assert network[0].momentum == 0.3


class Drawing(nn.Module, DrawsOnly):
    """Draws in training, and keeps nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.dropout = nn.Dropout()


class Following(nn.Module, FollowsBatches):
    """Follows the batches."""


def test_what_only_draws_goes_on_to_draw() -> None:
    network = nn.Sequential(Drawing(), nn.Dropout()).train()
    with in_evaluation_mode(network):
        assert [part.training for part in network.modules()] == [False, True, True, False]
    assert all(part.training for part in network.modules())


def test_what_follows_the_batches_stands_still_meanwhile() -> None:
    network = nn.Sequential(Following(), nn.BatchNorm1d(2))
    for block in (keep_running_statistics, follow_the_batch):
        with block(network):
            assert not network[0].is_following
        assert network[0].is_following
