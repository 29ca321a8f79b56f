"""Running first moments of the embeddings of each class: all that a von Mises-Fisher estimate needs."""

import torch
from torch import Tensor
from torch.nn.functional import normalize

from proco.distributed import all_reduce_sum, world_size
from proco.full_precision import FullPrecisionModule


def class_sums(rows: Tensor, labels: Tensor, num_classes: int) -> tuple[Tensor, Tensor]:
    """Return the sums (K, p) of the rows (N, p) of each class over all ranks, and how many they are (K,), in its type.

    Rows that are not finite are left out. It is one message of K (p + 1) numbers, whatever the samples on each rank.
    """
    is_finite = rows.isfinite().all(dim=1, keepdim=True)
    counted = torch.cat([torch.where(is_finite, rows, 0.0), is_finite.to(rows.dtype)], dim=1)
    sums = all_reduce_sum(rows.new_zeros(num_classes, counted.shape[1]).index_add_(0, labels, counted))
    return sums[:, :-1], sums[:, -1]


class ClassMoments(FullPrecisionModule):
    """Per-class sums and counts of embeddings, over two windows, equal on every rank.

    The *running* window holds this epoch so far. The *estimation* window, from which distributions are estimated,
    holds the previous epoch and this epoch so far (in the first epoch, this one alone). `start_epoch` turns the
    former into the latter, which is how the official code averages (the paper's text: the previous epoch only). With
    past_epochs above 1 the estimation window holds as many previous epochs.

    Sums and counts are kept instead of means, so the order of the updates and their split into batches do not
    matter. Sums are float32: right for ten million images of a class in a window, not for several times as many. A
    class that was never seen has count 0, mean 0 and mean length 0: the uniform distribution.

    Shapes: K classes, p dimensions; sums (K, p), counts (K,).
    """

    sums: Tensor
    counts: Tensor
    running_sums: Tensor
    running_counts: Tensor
    past_sums: Tensor
    past_counts: Tensor

    def __init__(self, num_classes: int, dim: int, past_epochs: int = 1) -> None:
        super().__init__()
        for name, size in (("num_classes", num_classes), ("dim", dim), ("past_epochs", past_epochs)):
            if not hasattr(size, "__index__"):
                raise TypeError(f"{name} must be a whole number; got {size!r}.")
        if num_classes < 1 or dim < 1 or past_epochs < 1:
            raise ValueError(
                f"num_classes, dim and past_epochs must be at least 1; got {num_classes}, {dim} and {past_epochs}."
            )
        for name in ("sums", "running_sums"):
            self.register_buffer(name, torch.zeros(num_classes, dim))
        for name in ("counts", "running_counts"):
            # Not int64: compiled atomic additions of it fall back to a sort, at several times the cost.
            self.register_buffer(name, torch.zeros(num_classes, dtype=torch.int32))
        # Previous epochs that are to be in the next estimation window too, the latest first.
        kept = {"past_sums": torch.zeros(past_epochs - 1, num_classes, dim)}
        kept["past_counts"] = torch.zeros(past_epochs - 1, num_classes, dtype=torch.int32)
        for name, value in kept.items():
            self.register_buffer(name, value, persistent=past_epochs > 1)

    @property
    def past_epochs(self) -> int:
        """Previous epochs that the estimation window holds."""
        return len(self.past_sums) + 1

    @torch.no_grad()
    def update(self, embeddings: Tensor, labels: Tensor) -> None:
        """Take in a batch: embeddings (N, p) of any floating type, labels (N,) in [0, K).

        Rows that are not finite are left out: one overflow must not stay in the statistics for epochs.
        """
        embeddings = embeddings.detach().to(self.sums.dtype)
        if world_size() > 1:
            batch_sums, batch_counts = class_sums(embeddings, labels, len(self.counts))
            for sums, counts in self._windows():
                sums += batch_sums
                counts += batch_counts.to(counts.dtype)
            return
        # No matrix of all classes is made where nothing is sent.
        is_finite = embeddings.isfinite().all(dim=1)
        embeddings = torch.where(is_finite[:, None], embeddings, 0.0)
        for sums, counts in self._windows():
            sums.index_add_(0, labels, embeddings)
            counts.index_add_(0, labels, is_finite.to(counts.dtype))

    @torch.no_grad()
    def start_epoch(self) -> None:
        """Begin an epoch: estimate from the epochs that have ended, as many as the window holds."""
        for whole, past, running in (
            (self.sums, self.past_sums, self.running_sums),
            (self.counts, self.past_counts, self.running_counts),
        ):
            epochs = torch.cat([running[None], past])
            whole.copy_(epochs.sum(dim=0))
            past.copy_(epochs[:-1])
            running.zero_()

    def mean(self) -> Tensor:
        """Return the mean embedding of each class, (K, p)."""
        return self.sums / self.counts.clamp_min(1)[:, None]

    def mean_direction(self) -> Tensor:
        """Return the unit mean direction of each class, (K, p); zero for a class that has none."""
        return normalize(self.sums, dim=1)

    def mean_length(self) -> Tensor:
        """Return the length of each class's mean embedding, (K,), in [0, 1] up to rounding."""
        length: Tensor = torch.linalg.vector_norm(self.sums, dim=1)
        return length / self.counts.clamp_min(1)

    def extra_repr(self) -> str:
        """Return the sizes."""
        return f"num_classes={self.sums.shape[0]}, dim={self.sums.shape[1]}, past_epochs={self.past_epochs}"

    def _windows(self) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
        return (self.sums, self.counts), (self.running_sums, self.running_counts)
