"""Whether Triton's kernels run on a device; asking needs no Triton."""

import warnings
from functools import cache
from importlib.util import find_spec

import torch


def kernels_run_on(device: torch.device) -> bool:
    """Return whether kernels of ours can be called for tensors on the device; under torch.compile they cannot."""
    return not torch.compiler.is_compiling() and has_triton(device)


@cache
def has_triton(device: torch.device) -> bool:
    """Return whether a kernel of Triton runs on the device: the first time it is tried with one."""
    if device.type != "cuda" or find_spec("triton") is None or torch.cuda.get_device_capability(device) < (8, 0):
        return False
    from proco.kernels.partials import total

    try:
        own_stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]  # which is in no rehearsal
        with torch.cuda.device(device), torch.cuda.stream(own_stream):
            total(torch.ones(1, 1, device=device))
    except Exception as error:  # of many kinds: Triton builds its launcher with a C compiler
        warnings.warn(
            f"Triton does not work here, so small networks, their views and ProCo's loss take longer: {error}",
            stacklevel=2,
        )
        return False
    return True
