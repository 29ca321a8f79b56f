"""Synchronised batch norm: two gloo ranks against torch's own batch norm on the whole batch."""

import copy
from typing import Any

import pytest
import torch
from tests.distributed.ranks import run_on_two_ranks
from torch import nn

from proco.distributed import all_reduce_sum, world_size
from proco.errors import ConfigError
from proco.models import batch_norm
from proco.models.batch_norm import SynchronisedBatchNorm, synchronise_batch_norm

CHANNELS, SIZES = 3, [5, 2]  # unequal parts of a batch of 7
TOLERANCES = {torch.float32: 1e-6, torch.float64: 1e-12}


def layers() -> dict[str, tuple[nn.Module, tuple[int, ...]]]:
    """Batch norms, and the shape of a sample."""
    return {
        "1d": (nn.BatchNorm1d(CHANNELS), (CHANNELS,)),
        "1d with length": (nn.BatchNorm1d(CHANNELS), (CHANNELS, 4)),
        "2d": (nn.BatchNorm2d(CHANNELS), (CHANNELS, 4, 4)),
        "no momentum": (nn.BatchNorm2d(CHANNELS, momentum=None), (CHANNELS, 4, 4)),
        "no parameters": (nn.BatchNorm2d(CHANNELS, affine=False), (CHANNELS, 4, 4)),
        "nothing tracked": (nn.BatchNorm2d(CHANNELS, track_running_stats=False), (CHANNELS, 4, 4)),
    }


def train_and_evaluate(rank: int, layer: nn.Module, sample: tuple[int, ...], dtype: torch.dtype) -> dict[str, Any]:
    """Two training steps and one of evaluation on the part of the batch that is this rank's.

    "rows" are cut over the ranks, "shared" is the same on each: gradients of parameters, added up, and the state.
    """
    generator = torch.Generator().manual_seed(0)
    for parameter in layer.parameters():
        nn.init.uniform_(parameter, 0.5, 2.0, generator=generator)
    layer = synchronise_batch_norm(layer.to(dtype))
    rows, shared = [], []
    for _ in range(2):
        inputs = torch.randn(sum(SIZES), *sample, generator=generator, dtype=torch.float64) + 2
        slopes = torch.randn(inputs.shape, generator=generator, dtype=torch.float64)
        if world_size() > 1:
            inputs, slopes = (tensor.split(SIZES)[rank] for tensor in (inputs, slopes))
        inputs = inputs.to(dtype).requires_grad_()
        outputs = layer(inputs)
        gradients = torch.autograd.grad((outputs * slopes).sum(), (inputs, *layer.parameters()))
        rows += [outputs.detach(), gradients[0]]
        shared += [all_reduce_sum(gradient.clone()) for gradient in gradients[1:]]
    # Where nothing is tracked, torch takes the statistics of the batch in evaluation too, but of one rank's.
    if layer.running_mean is not None:
        rows.append(layer.eval()(inputs).detach())
    return {"rows": rows, "shared": shared, "state": dict(layer.state_dict())}


def train_all(rank: int) -> dict[str, Any]:
    results: dict[str, Any] = {
        f"{name} {dtype}": train_and_evaluate(rank, layer, sample, dtype)
        for dtype in TOLERANCES
        for name, (layer, sample) in layers().items()
    }
    few = torch.arange(6.0).reshape(6, 1)
    results["empty"] = synchronise_batch_norm(nn.BatchNorm1d(1))(few if rank == 0 else few[:0]).detach()
    return results


def test_two_ranks_give_what_one_process_gives_on_the_whole_batch() -> None:
    ranks = run_on_two_ranks(train_all)
    for dtype, tolerance in TOLERANCES.items():
        for name, (layer, sample) in layers().items():
            expected = train_and_evaluate(0, layer, sample, dtype)
            found = [rank[f"{name} {dtype}"] for rank in ranks]
            joined = [torch.cat(parts) for parts in zip(*(rank["rows"] for rank in found), strict=True)]
            torch.testing.assert_close(joined, expected["rows"], rtol=tolerance, atol=tolerance)
            for rank in found:
                torch.testing.assert_close(rank["shared"], expected["shared"], rtol=tolerance, atol=4 * tolerance)
                torch.testing.assert_close(rank["state"], expected["state"], rtol=tolerance, atol=tolerance)
                assert list(rank["state"]) == list(expected["state"])
    torch.testing.assert_close(ranks[0]["empty"], nn.BatchNorm1d(1)(torch.arange(6.0).reshape(6, 1)).detach())
    assert ranks[1]["empty"].shape == (0, 1)


def test_one_process_keeps_its_module() -> None:
    network = nn.Sequential(nn.BatchNorm1d(2))
    assert synchronise_batch_norm(network) is network
    assert type(network[0]) is nn.BatchNorm1d


@pytest.fixture
def _among_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let conversion believe in a second rank; statistics are still taken of this process alone."""
    monkeypatch.setattr(batch_norm, "world_size", lambda: 2)


@pytest.mark.usefixtures("_among_ranks")
def test_conversion_keeps_modes_names_and_parameters() -> None:
    network = nn.Sequential(nn.Conv2d(2, 3, 1), nn.Sequential(nn.BatchNorm2d(3), nn.ReLU()), nn.BatchNorm1d(3).eval())
    nn.init.normal_(network[1][0].weight)
    before, parameters = copy.deepcopy(network.state_dict()), list(network.parameters())
    assert synchronise_batch_norm(network) is network
    norms = [module for module in network.modules() if isinstance(module, SynchronisedBatchNorm)]
    assert [norm.training for norm in norms] == [True, False]
    assert list(network.state_dict()) == list(before)
    torch.testing.assert_close(network.state_dict(), before, rtol=0, atol=0)
    # The same objects, so that an optimiser made before still moves them.
    assert all(new is old for new, old in zip(network.parameters(), parameters, strict=True))
    assert list(synchronise_batch_norm(network).modules()) == list(network.modules())
    assert isinstance(synchronise_batch_norm(nn.BatchNorm1d(3)), SynchronisedBatchNorm)


@pytest.mark.usefixtures("_among_ranks")
@pytest.mark.parametrize("training", [True, False])
def test_activations_of_timm_survive(training: bool) -> None:
    from timm.layers import BatchNormAct2d

    torch.manual_seed(0)
    layer = BatchNormAct2d(2, act_layer=nn.SiLU).train(training)
    inputs = torch.randn(4, 2, 3, 3)
    expected = copy.deepcopy(layer)(inputs)
    torch.testing.assert_close(synchronise_batch_norm(layer)(inputs), expected)


@pytest.mark.usefixtures("_among_ranks")
def test_unknown_batch_norms_are_refused() -> None:
    class OwnNorm(nn.BatchNorm2d):
        pass

    with pytest.raises(ConfigError, match="OwnNorm cannot be synchronised over ranks: only torch's own"):
        synchronise_batch_norm(nn.Sequential(OwnNorm(2)))


def test_one_value_a_channel_is_refused_as_torch_refuses_it() -> None:
    with pytest.raises(ValueError, match="two values a channel or more to train on; got 1"):
        SynchronisedBatchNorm(2)(torch.zeros(1, 2))


def test_a_mean_far_from_zero_does_not_drown_the_variance() -> None:
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(64, 2, 5, 5, generator=generator, dtype=torch.float64).float() + 1000
    exact = nn.BatchNorm2d(2, dtype=torch.float64)(inputs.double())
    torch.testing.assert_close(SynchronisedBatchNorm(2)(inputs).double(), exact, rtol=0, atol=2e-4)


def test_half_precision_is_not_summed() -> None:
    generator = torch.Generator().manual_seed(0)
    inputs = (torch.randn(512, 2, generator=generator) + 20).bfloat16()
    found = SynchronisedBatchNorm(2)(inputs)
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found.float(), nn.BatchNorm1d(2)(inputs.float()), rtol=1e-2, atol=1e-2)
