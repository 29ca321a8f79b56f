"""How good a network is on a split: its predictions counted into metrics, a few large batches at a time."""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn

from proco.augment.choices import send
from proco.augment.window import CentreWindow
from proco.data.dataset import Split
from proco.data.images import Cut, Images
from proco.distributed import rank, world_size
from proco.evaluation.metrics import Evaluation, Metrics
from proco.models.network import Outputs
from proco.training.device import autocast_to
from proco.training.lanes import wait_for

_BATCH_BYTES = 2**23  # of pixels: 2,730 images of 32 x 32, 55 of 224 x 224

Predict = Callable[[Outputs, Tensor], Tensor]


@torch.no_grad()  # not inference_mode: the threads that decode files write into tensors made here
def evaluate(
    network: nn.Module,
    predict: Predict,
    split: Split,
    class_counts: Tensor,
    *,
    size: tuple[int, int],
    centre: float,
    device: torch.device,
    autocast: torch.dtype | None = None,
) -> Metrics:
    """Return the metrics of a network, in evaluation mode, on all images of a split.

    predict: from outputs and class_counts (K,), the training counts, to scores (N, K). Over several ranks each takes a
    part, and all return the same metrics.
    """
    class_counts = class_counts.to(device)
    evaluation = Evaluation(len(class_counts), class_counts, device)
    for positions, outputs in outputs_of(network, split.images, _own_positions(split), size, centre, device, autocast):
        evaluation.update(predict(outputs, class_counts), send(split.labels[positions], device))
    wait_for(device)
    return evaluation.metrics()


@torch.no_grad()
def features_of(
    network: nn.Module,
    split: Split,
    *,
    size: tuple[int, int],
    centre: float,
    device: torch.device,
    autocast: torch.dtype | None = None,
) -> tuple[Tensor, Tensor]:
    """Return features (n, d), as evaluation sees them, and labels (n,) of this rank's part of the images of a split."""
    own = _own_positions(split)
    looks = outputs_of(network, split.images, own, size, centre, device, autocast)
    return torch.cat([outputs.features for _, outputs in looks]), send(split.labels[own], device)


def outputs_of(
    network: nn.Module,
    images: Images,
    positions: Tensor,
    size: tuple[int, int],
    centre: float,
    device: torch.device,
    autocast: torch.dtype | None,
) -> Iterator[tuple[Tensor, Outputs]]:
    """Yield positions of images and what the network, in evaluation mode meanwhile, says of them, some at a time."""
    was_training = network.training
    network.eval()
    window = CentreWindow(centre)
    batch = max(1, _BATCH_BYTES // (images.channels * size[0] * size[1]))
    for some in torch.split(positions, batch) if len(positions) else ():  # a rank may have none
        cut = Cut(window, torch.empty(len(some), 0))
        (views,) = images.cut(some, [cut], size, device)
        with autocast_to(autocast, device):
            outputs = network(views)
        yield some, outputs
    network.train(was_training)


def _own_positions(split: Split) -> Tensor:
    """Return the positions of the images that this rank looks at."""
    return torch.arange(len(split.labels))[rank() :: world_size()]
