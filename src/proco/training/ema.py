"""An exponential moving average of a network's weights."""

import copy

import torch
from torch import nn


class MovingAverage(nn.Module):
    """A copy of a network that follows it: average <- decay average + (1 - decay) network, after every step.

    Batch-norm statistics are averaged too; whole numbers are copied. The first steps count for more, with a decay of
    (1 + t)/(10 + t), so that the average does not hold on to the random start.
    """

    steps: torch.Tensor

    def __init__(self, network: nn.Module, decay: float) -> None:
        super().__init__()
        self.network = copy.deepcopy(network).requires_grad_(False).eval()
        self.decay = decay
        # A tensor and not a number, so that a recorded step counts on.
        self.register_buffer("steps", torch.zeros((), device=next(network.parameters()).device))

    @torch.no_grad()
    def update(self, network: nn.Module) -> None:
        """Move towards the network's present weights."""
        self.steps += 1
        share = 1 - ((1 + self.steps) / (10 + self.steps)).clamp_max(self.decay)
        for average, current in zip(self.network.state_dict().values(), network.state_dict().values(), strict=True):
            if average.is_floating_point():
                average.lerp_(current, share.to(average.dtype))
            else:
                average.copy_(current)
