"""How good a network is on a split: its predictions counted into metrics, a few large batches at a time."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from proco.augment.choices import send
from proco.augment.window import CentreWindow
from proco.data.dataset import Split
from proco.data.images import Cut
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
    was_training = network.training
    network.eval()
    class_counts = class_counts.to(device)
    evaluation = Evaluation(len(class_counts), class_counts, device)
    window = CentreWindow(centre)
    batch = max(1, _BATCH_BYTES // (split.images.channels * size[0] * size[1]))
    own = torch.arange(len(split.labels))[rank() :: world_size()]
    for start in range(0, len(own), batch):
        positions = own[start : start + batch]
        cut = Cut(window, torch.empty(len(positions), 0))
        (images,) = split.images.cut(positions, [cut], size, device)
        with autocast_to(autocast, device):
            outputs = network(images)
        evaluation.update(predict(outputs, class_counts), send(split.labels[positions], device))
    network.train(was_training)
    wait_for(device)
    return evaluation.metrics()
