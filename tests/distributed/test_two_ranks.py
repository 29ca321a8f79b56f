"""Two gloo ranks against one process that holds the whole batch."""

from functools import partial
from typing import Any

import pytest
import torch
import torch.distributed as dist
from tests.distributed.ranks import run_on_two_ranks
from torch import Tensor, nn
from torch.nn.functional import normalize
from torch.nn.parallel import DistributedDataParallel

from proco import ProCoLoss
from proco.losses.contrast_form import ContrastForm

NUM_CLASSES, DIM, STEPS = 5, 16, 3


def batches() -> list[tuple[Tensor, Tensor]]:
    generator = torch.Generator().manual_seed(0)
    return [
        (torch.randn(12, 10, generator=generator), torch.randint(NUM_CLASSES, (12,), generator=generator))
        for _ in range(STEPS)
    ]


def train(rank: int, world_size: int, form: ContrastForm) -> dict[str, Any]:
    """Three steps with one call per view; return losses, gradients of the last step and statistics."""
    torch.manual_seed(0)
    network: nn.Module = nn.Linear(10, DIM)
    if world_size > 1:
        network = DistributedDataParallel(network)
    criterion = ProCoLoss([50, 20, 10, 5, 2], dim=DIM, form=form)
    losses = []
    for step, (inputs, labels) in enumerate(batches()):
        if step == 1:
            criterion.start_epoch()
        inputs, labels = inputs[rank::world_size], labels[rank::world_size]
        embeddings = normalize(network(torch.cat([inputs, inputs + 0.1])), dim=1)
        loss = sum(criterion(view, labels) for view in embeddings.chunk(2))
        assert isinstance(loss, Tensor)
        network.zero_grad()
        loss.backward()
        mean = loss.detach().clone()
        if world_size > 1:
            dist.all_reduce(mean)
        losses.append(mean / world_size)
    gradients = [parameter.grad for parameter in network.parameters()]
    return {"losses": losses, "gradients": gradients, "state": criterion.state_dict()}


@pytest.mark.parametrize("form", ["in", "out"])
def test_two_ranks_give_the_statistics_losses_and_gradients_of_one(form: ContrastForm) -> None:
    ranks = run_on_two_ranks(partial(train, world_size=2, form=form))
    expected = train(0, 1, form)
    for found in ranks:
        torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6)
    for name, value in ranks[0]["state"].items():
        assert torch.equal(value, ranks[1]["state"][name]), name
