"""What the library needs of torch.distributed; every function is the identity without a process group."""

import gc
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd.function import once_differentiable

from proco.errors import ConfigError


def world_size() -> int:
    """Return the number of ranks, 1 without a process group."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def rank() -> int:
    """Return the number of this process among the ranks, 0 without a process group."""
    return dist.get_rank() if dist.is_available() and dist.is_initialized() else 0


def is_main_process() -> bool:
    """Say whether this is the process that writes files and speaks to the user."""
    return rank() == 0


def broadcast_text(text: str) -> str:
    """Return the main process's text on every rank."""
    if world_size() == 1:
        return text
    texts = [text]
    dist.broadcast_object_list(texts)
    return texts[0]


def gather_texts(texts: Sequence[str]) -> list[str]:
    """Return the texts of all ranks, in rank order, each once; every rank must call this."""
    lists = [list(texts)]
    if world_size() > 1:
        lists = [[] for _ in range(world_size())]
        dist.all_gather_object(lists, list(texts))
    return list(dict.fromkeys(text for own in lists for text in own))


def all_reduce_sum(tensor: Tensor) -> Tensor:
    """Add the tensor up over all ranks, in place, and return it."""
    if world_size() > 1:
        dist.all_reduce(tensor, op=dist.ReduceOp.SUM)
    return tensor


def all_gather_rows(rows: Tensor) -> Tensor:
    """Concatenate the rows (n, ...) of all ranks in rank order, (ranks n, ...); n must be the same on every rank.

    Rank r finds its own rows at r n. Each rank's loss is taken to depend on the gathered rows: backward adds up the
    gradients of all ranks, so that every rank must call it.
    """
    if world_size() == 1:
        return rows
    gathered: Tensor = _GatherRows.apply(rows)  # type: ignore[no-untyped-call]
    return gathered


class _GatherRows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor) -> Tensor:
        ctx.size = len(rows)
        parts = [torch.empty_like(rows, memory_format=torch.contiguous_format) for _ in range(world_size())]
        dist.all_gather(parts, rows.contiguous())
        return torch.cat(parts)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        # Autograd may still use the gradient it hands in: sum a copy.
        total = all_reduce_sum(gradient.clone(memory_format=torch.contiguous_format))
        return total.narrow(0, rank() * ctx.size, ctx.size)


@contextmanager
def process_group(device_type: Literal["cuda", "cpu"] | None = None) -> Iterator[None]:
    """Join the ranks that torchrun started for the length of a with block.

    device_type: where the tensors will be, by default on the GPU if there is one. On "cuda" the backend is nccl and
    the current device becomes that of the local rank; on "cpu" the backend is gloo. Does nothing in a process that
    torchrun did not start, in one that is alone, and where a process group exists already.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) == 1 or dist.is_initialized():
        yield
        return
    # Its functions keep the group that exists when they are first imported, as DistributedDataParallel would do, for
    # good: the group's threads would outlive it.
    import torch.distributed.nn.functional

    if device_type == "cuda" or (device_type is None and torch.cuda.is_available()):
        device = torch.device("cuda", _local_gpu())
        torch.cuda.set_device(device)
        dist.init_process_group("nccl", device_id=device)
    else:
        dist.init_process_group("gloo")
    try:
        yield
    finally:
        # Whatever still holds on to the group, in circles, would keep its threads alive; one that wants to free a
        # tensor while Python ends is stopped, and the process with it.
        gc.collect()
        dist.destroy_process_group()


def _local_gpu() -> int:
    local_rank, num_gpus = int(os.environ["LOCAL_RANK"]), torch.cuda.device_count()
    if local_rank >= num_gpus:
        raise ConfigError(
            f"local rank {local_rank} needs a GPU of its own, but this machine shows {num_gpus}; "
            f"start torchrun with --nproc-per-node {num_gpus} or fewer."
        )
    return local_rank
