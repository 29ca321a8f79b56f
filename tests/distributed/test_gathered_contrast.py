"""Pairwise contrast with the gathered batch of two ranks, against one process that holds the whole batch."""

from typing import Any

import pytest
import torch
from tests.distributed.ranks import run_on_two_ranks
from torch.nn.functional import normalize

from proco import BalancedContrastiveLoss, SupConLoss
from proco.distributed import all_gather_rows, all_reduce_sum, rank, world_size


def losses_and_gradients(own_rank: int) -> dict[str, Any]:
    """One backward pass of each loss, on the part of the batch that is this rank's; gradients averaged as by DDP."""
    generator = torch.Generator().manual_seed(0)

    def random(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    inputs, labels = random(12, 5), torch.arange(12) % 3
    labels[0] = 3  # the first rank has an anchor without a positive, which does not count
    weight, centres = random(5, 6).requires_grad_(), random(4, 6).requires_grad_()
    size = 12 // world_size()
    inputs, labels = inputs.split(size)[own_rank], labels.split(size)[own_rank]

    found = {}
    for name in ("in", "out", "balanced"):
        embeddings = normalize(inputs @ weight, dim=1)
        gathered = all_gather_rows(embeddings), all_gather_rows(labels), rank() * size
        if name == "balanced":
            loss = BalancedContrastiveLoss(0.3)(embeddings, labels, normalize(centres, dim=1), *gathered)
        else:
            loss = SupConLoss(0.3, form=name)(embeddings, labels, *gathered)  # type: ignore[arg-type]
        gradients = torch.autograd.grad(loss, (weight, centres), materialize_grads=True)
        found[name] = {
            "loss": loss.detach(),
            "gradients": [all_reduce_sum(gradient.clone()) / world_size() for gradient in gradients],
        }
    return found


def test_two_ranks_give_the_loss_and_gradients_of_one_process() -> None:
    first, second = run_on_two_ranks(losses_and_gradients)
    for name, expected in losses_and_gradients(0).items():
        mean = (first[name]["loss"] + second[name]["loss"]) / 2
        assert mean.item() == pytest.approx(expected["loss"].item(), rel=1e-12)
        assert first[name]["loss"] != second[name]["loss"]
        for found in (first, second):
            torch.testing.assert_close(found[name]["gradients"], expected["gradients"], rtol=1e-10, atol=1e-13)
        assert expected["gradients"][0].abs().max() > 1e-3
    assert expected["gradients"][1].abs().max() > 1e-3  # the balanced loss reaches the centres
