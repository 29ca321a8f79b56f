"""What every loss does with its batch: check it at the edge, reduce the losses of the samples."""

from abc import abstractmethod
from typing import Literal

import torch
from torch import Tensor

from proco.distributed import all_reduce_sum, world_size

Reduction = Literal["mean", "sum", "none"]


class WeighsSamples:
    """What losses inherit from whose samples weigh unequally, and whose mean is divided by the sum of the weights."""

    @abstractmethod
    def sample_weights(self, labels: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
        """Return what samples of these labels (N,) weigh, (N,)."""


def reduce(losses: Tensor, reduction: Reduction) -> Tensor:
    """Reduce per-sample losses (N,). The mean over an empty batch is 0, not NaN, and keeps its graph."""
    if reduction == "none":
        return losses
    total = losses.sum()
    return total if reduction == "sum" else total / max(len(losses), 1)


def weighted_reduce(losses: Tensor, weights: Tensor, reduction: Reduction) -> Tensor:
    """Reduce losses (N,) that weigh unequally, by weights (N,): the mean is divided by the sum of the weights."""
    weighted = weights * losses
    return mean_by_weights(weighted, weights) if reduction == "mean" else reduce(weighted, reduction)


def mean_by_weights(weighted: Tensor, weights: Tensor) -> Tensor:
    """Return the sum of losses (N,) that are multiplied by their weights, over the sum of the weights (N,).

    Over several ranks that is the sum of all of them, so that the mean of the ranks' losses is that of one process;
    every rank has to call it.
    """
    total_weight = all_reduce_sum(weights.sum()) / world_size()
    return weighted.sum() / total_weight.clamp_min(torch.finfo(weighted.dtype).tiny)


def _require_tensor(value: object, name: str) -> None:
    if not isinstance(value, Tensor):
        raise TypeError(f"{name} must be a tensor; got {type(value).__name__}. torch.as_tensor makes one of it.")


def require_matrix(scores: Tensor, width: int | None, name: str) -> None:
    """Refuse what is not a floating matrix (N, width). Costs no synchronisation."""
    _require_tensor(scores, name)
    # Not `in`: torch.compile compares sizes by == and != alone.
    if scores.dim() != 2 or (width is not None and scores.shape[1] != width):
        raise ValueError(f"{name} must have shape (N, {width or 'p'}); got {tuple(scores.shape)}.")
    if not scores.is_floating_point():
        raise ValueError(f"{name} must be of a floating type; got {scores.dtype}.")


def require_labels(labels: Tensor, size: int, name: str = "labels") -> None:
    """Refuse labels that are not whole numbers, one for each of size samples. Costs no synchronisation."""
    _require_tensor(labels, name)
    if labels.dim() != 1 or len(labels) != size:
        raise ValueError(f"{name} must have shape ({size},), one per sample; got {tuple(labels.shape)}.")
    if labels.dtype not in (torch.int64, torch.int32):
        raise ValueError(f"{name} must be int64 or int32; got {labels.dtype}.")


def checked_labels(
    labels: Tensor, size: int, num_classes: int, *, validate: bool = False, name: str = "labels"
) -> Tensor:
    """Refuse labels that are not size whole numbers in [0, num_classes); return them fit for any kernel.

    Values are read only where that is free (on the CPU) or asked for, and never under torch.compile. Unread, -1 would
    count from the end in compiled code, and cross_entropy would leave out -100. So negative labels become num_classes,
    which whatever is indexed by labels refuses; code that only compares them has to check them itself.
    """
    require_labels(labels, size, name)
    may_read = not torch.compiler.is_compiling() and (validate or labels.device.type == "cpu")
    if may_read and len(labels):
        low, high = int(labels.min()), int(labels.max())
        if low < 0 or high >= num_classes:
            wrong = low if low < 0 else high
            raise ValueError(f"{name} must lie in [0, {num_classes - 1}]; got {wrong}. The first is 0, not 1.")
    return torch.where(labels < 0, num_classes, labels)


def checked_logits(logits: Tensor, labels: Tensor, num_classes: int | None = None) -> tuple[Tensor, Tensor]:
    """Refuse logits and labels that are not of the same samples; return both in types in which losses are exact.

    logits: (N, K), returned in float32 or finer; labels: (N,) in [0, K), returned in int64. num_classes: K, where the
    loss knows it.
    """
    require_matrix(logits, num_classes, "logits")
    labels = checked_labels(labels, len(logits), logits.shape[1])
    return logits.to(torch.promote_types(logits.dtype, torch.float32)), labels.long()


def is_label(labels: Tensor, num_classes: int) -> Tensor:
    """Return where a class is the label, (N, K), of labels (N,)."""
    return labels[:, None] == torch.arange(num_classes, device=labels.device)


def require_unit_length(embeddings: Tensor, name: str = "embeddings") -> None:
    """Refuse embeddings (N, p) that are not finite unit vectors, with the tolerance of their type."""
    lengths = torch.linalg.vector_norm(embeddings.detach().float(), dim=1)
    tolerance = 1e-3 if embeddings.dtype.itemsize >= 4 else 3e-2
    wrong = ~((lengths - 1).abs() <= tolerance)
    if wrong.any():
        raise ValueError(
            f"{name} must have length 1; {int(wrong.sum())} of {len(lengths)} have not, the first has "
            f"{lengths[wrong][0].item():.4g}. Apply torch.nn.functional.normalize({name}, dim=1) before the loss."
        )
