"""An exponential moving average of a network's weights."""

import copy

import torch
from torch import nn


class MovingAverage(nn.Module):
    """A copy of a network that follows it: average <- decay average + (1 - decay) network, after every step.

    Batch-norm statistics are averaged too; whole numbers are copied. The first steps count for more, with a decay of
    (1 + t)/(10 + t), so that the average does not hold on to the random start. They count from `restart` on.
    """

    steps: torch.Tensor

    def __init__(self, network: nn.Module, decay: float) -> None:
        super().__init__()
        self.network = copy.deepcopy(network).requires_grad_(False).eval()
        self.decay = decay
        # A tensor and not a number, so that a recorded step counts on.
        self.register_buffer("steps", torch.zeros((), device=next(network.parameters()).device))

    def restart(self) -> None:
        """Let the next steps count as the first ones do: other parts of the network learn from now on."""
        self.steps.zero_()

    @torch.no_grad()
    def update(self, network: nn.Module) -> None:
        """Move towards the network's present weights."""
        self.steps += 1
        share = 1 - ((1 + self.steps) / (10 + self.steps)).clamp_max(self.decay)
        pairs = list(zip(self.network.state_dict().values(), network.state_dict().values(), strict=True))
        averages, currents = zip(*(pair for pair in pairs if pair[0].is_floating_point()), strict=True)
        # All at once: on a GPU each of hundreds of small tensors would else be a kernel of its own.
        moves = torch._foreach_sub(currents, averages)
        torch._foreach_mul_(moves, share.to(averages[0].dtype))
        torch._foreach_add_(averages, moves)
        if whole := [pair for pair in pairs if not pair[0].is_floating_point()]:
            torch._foreach_copy_([average for average, _ in whole], [current for _, current in whole])
