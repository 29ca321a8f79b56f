"""Renewed running statistics: means over batches, whatever was there before; recorded as plain."""

import copy

import pytest
import torch
from tests.models.test_running_statistics import batches, make
from torch import nn

from proco.models.network import Network, NetworkConfig
from proco.models.normalise import Normalise
from proco.training.renewal import Renewal


def test_renewed_statistics_are_means_over_the_batches() -> None:
    network = make()
    network(batches(1)[0])  # leaves something behind
    network.eval()
    renewal = Renewal(network)
    renewal(batches(1))  # as does this
    renewal(batches(3))
    hidden = [network[0](images).transpose(0, 1).flatten(1) for images in batches(3)]
    torch.testing.assert_close(network[1].running_mean, torch.stack([values.mean(1) for values in hidden]).mean(0))
    torch.testing.assert_close(network[1].running_var, torch.stack([values.var(1) for values in hidden]).mean(0))
    assert network[1].momentum == 0.1
    assert not network.training


def test_later_norms_see_what_training_would_show_them() -> None:
    """Statistics are of hidden values normalised by the batch, not by the running statistics before them."""
    network = make().train()
    network(batches(1)[0])  # gives the lazy layer its shape
    Renewal(network)(batches(1))
    hidden = network[:4](batches(1)[0])
    torch.testing.assert_close(network[4].running_mean, hidden.mean(0))
    assert network.training


def test_weights_may_change_in_between() -> None:
    network = make().eval()
    network(batches(1)[0])
    renewal = Renewal(network)
    renewal(batches(2))
    with torch.no_grad():
        network[0].weight *= 2
    renewal(batches(2))
    twin = copy.deepcopy(network)
    Renewal(twin)(batches(2))
    assert torch.equal(network[4].running_mean, twin[4].running_mean)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="graphs are recorded on a GPU")
@pytest.mark.parametrize("autocast", [None, torch.bfloat16])
def test_recorded_renewal_is_the_plain_one(autocast: torch.dtype | None) -> None:
    config = NetworkConfig(backbone="resnet8", hidden=16, dim=16, options={"experts": 2})
    normalise = Normalise(torch.full((3,), 0.5), torch.full((3,), 0.25))
    network = Network(config, 4, normalise, with_projector=True).cuda().eval()
    network.to(memory_format=torch.channels_last)
    twin = copy.deepcopy(network)
    weights = {name: value.clone() for name, value in network.named_parameters()}
    plain, recorded = Renewal(twin, autocast), Renewal(network, autocast, graph=True)
    generator = torch.Generator().manual_seed(0)
    # Of other shapes at last: a stage may have other views.
    for size, number in ((16, 3), (16, 5), (24, 2)):
        images = [
            torch.randint(256, (size, 3, 16, 16), generator=generator, dtype=torch.uint8).cuda() for _ in range(number)
        ]
        plain(images)
        recorded(images)
        for (name, value), other in zip(network.named_buffers(), twin.buffers(), strict=True):
            if not name.endswith("num_batches_tracked"):
                torch.testing.assert_close(value, other, rtol=1e-4, atol=1e-5, msg=name)
        with torch.no_grad():  # as the average moves between evaluations
            for both in zip(network.parameters(), twin.parameters(), strict=True):
                for parameter in both:
                    parameter *= 1.1
    assert all(torch.allclose(value, 1.1**3 * weights[name]) for name, value in network.named_parameters())
    assert not network.training


def test_renewal_needs_no_gradients_and_computes_as_the_run_does() -> None:
    network, seen = make(), []
    network(batches(1)[0])  # gives the lazy layer its shape
    network[0].register_forward_hook(lambda _, __, hidden: seen.append((hidden.dtype, hidden.requires_grad)))
    Renewal(network, torch.float16)(batches(1))
    assert seen == [(torch.float16, False)]


def test_networks_without_batch_norms_have_nothing_to_renew() -> None:
    network = nn.Sequential(nn.Conv2d(3, 4, 3), nn.GroupNorm(2, 4))
    before = copy.deepcopy(network.state_dict())
    Renewal(network)(batches(2))
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())
