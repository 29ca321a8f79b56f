"""A device that runs out of memory, said in a sentence."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from proco.training.run_folder import RunError

_CPU = "DefaultCPUAllocator: "  # what PyTorch says on CPUs; for GPUs it has an error of its own
_GPU = "CUDA out of memory. "


@contextmanager
def shortage_explained(device: torch.device, remedy: str) -> Iterator[None]:
    """Let what runs out of memory end with a sentence: what was asked for last, and the remedy."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        asked = shortage_in(error)
        if asked is None:
            raise
        raise RunError(f"{device} has run out of memory ({asked}). {remedy}") from error


def shortage_in(error: BaseException | None) -> str | None:
    """Return what an error, or one that led to it, says of missing memory; a recording that it ends fails once more."""
    while error is not None:
        text = " ".join(str(error).split())
        if isinstance(error, torch.OutOfMemoryError | MemoryError) or _CPU in text:
            return re.split(r"(?<=[A-Za-z])\. ", text.rpartition(_CPU)[2].removeprefix(_GPU))[0]
        error = error.__cause__ or error.__context__
    return None
