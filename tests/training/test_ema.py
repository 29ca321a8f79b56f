"""The average of the weights, against the recursion written out."""

import torch
from torch import nn

from proco.training.ema import MovingAverage


def test_average_follows_the_recursion() -> None:
    network = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    average = MovingAverage(network, decay=0.3)
    expected = network[0].weight.detach().double().clone()
    for step in range(1, 6):
        with torch.no_grad():
            network[0].weight.normal_()
            network[1].num_batches_tracked += 1
        average.update(network)
        decay = min(0.3, (1 + step) / (10 + step))
        expected = decay * expected + (1 - decay) * network[0].weight.detach().double()
    torch.testing.assert_close(average.network[0].weight.double(), expected, rtol=1e-5, atol=1e-6)
    assert average.network[1].num_batches_tracked == 5
    assert not average.network[0].weight.requires_grad


def test_average_survives_saving() -> None:
    network = nn.Linear(2, 2)
    average = MovingAverage(network, decay=0.9)
    average.update(network)
    other = MovingAverage(nn.Linear(2, 2), decay=0.9)
    other.load_state_dict(average.state_dict())
    assert torch.equal(other.network.weight, average.network.weight)
    assert other.steps == 1


def test_the_average_is_in_evaluation_mode() -> None:
    network = nn.Sequential(nn.Linear(2, 2), nn.Dropout()).train()
    assert not any(part.training for part in MovingAverage(network, 0.9).network.modules())
    assert network.training
