"""Running statistics of batch norms taken anew, for weights that were not trained as they are: the mean of others."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from proco.models.running_statistics import follow_the_batch, running_statistics
from proco.training.device import autocast_to
from proco.training.recording import Recording


class Renewal:
    """Makes the running means and variances in a network the plain means over what batches give.

    Each norm sees what training would show it: hidden values that the norms before it have normalised by the batch.
    """

    def __init__(self, network: nn.Module, autocast: torch.dtype | None = None, *, graph: bool = False) -> None:
        self.network, self.autocast = network, autocast
        self.statistics = running_statistics(network)
        self.sums = [torch.zeros_like(statistic) for statistic in self.statistics]
        self.recording = Recording([*network.state_dict().values(), *self.sums]) if graph else None

    @torch.no_grad()
    def __call__(self, batches: Iterable[Tensor]) -> None:
        """Renew them by one batch or more of images, (N, C, H, W) each."""
        if not self.statistics:  # a network without batch norms
            return
        for total in self.sums:
            total.zero_()
        number = 0
        for images in batches:
            if self.recording is None:
                self._look(images)
            else:
                self.recording.run(self._look, images)
            number += 1
        for statistic, total in zip(self.statistics, self.sums, strict=True):
            torch.div(total, number, out=statistic)

    def _look(self, images: Tensor) -> Tensor:
        """Add what a batch gives to the sums; return one of them."""
        with follow_the_batch(self.network), autocast_to(self.autocast, images.device):
            self.network(images)
        torch._foreach_add_(self.sums, self.statistics)
        return self.sums[0]
