"""Where and how exactly a run computes: its device, the precision of its products, and whether bits repeat."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from proco.distributed import world_size
from proco.errors import ConfigError
from proco.training.settings import EngineConfig


def find_device(name: str) -> torch.device:
    """Return the device of that name; "auto" is the GPU of this rank, or the CPU."""
    if world_size() > 1 and ":" in name:
        raise ConfigError(
            f"engine.device: {name} is one device, for {world_size()} ranks. Name cuda; each takes its own."
        )
    try:
        device = torch.device(("cuda" if torch.cuda.is_available() else "cpu") if name == "auto" else name)
        if device.type == "cuda":
            # With its number, and as the current one: streams and graphs are made there, in other threads too.
            device = torch.device("cuda", torch.cuda.current_device()) if str(device) == "cuda" else device
            torch.cuda.set_device(device)
        torch.zeros(1, device=device).item()
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise ConfigError(f"engine.device: {name!r} is not usable here ({reason}). Try --device cpu.") from error
    return device


def set_precision(engine: EngineConfig, device: torch.device) -> torch.dtype | None:
    """Set the precision of float32 products on a GPU, for the process; return the type to autocast to, if any."""
    on_gpu = device.type == "cuda"
    if on_gpu:
        torch.set_float32_matmul_precision("highest" if engine.precision == "float32" else "high")
        torch.backends.cudnn.allow_tf32 = engine.precision != "float32"
        torch.backends.cudnn.benchmark = not engine.deterministic
    wants_half = engine.precision == "bfloat16" or (engine.precision == "auto" and on_gpu and _has_bfloat16(device))
    return torch.bfloat16 if wants_half else None


def _has_bfloat16(gpu: torch.device) -> bool:
    """Return whether the GPU computes in bfloat16 itself: older ones go a long way round, slower than in float32."""
    with torch.cuda.device(gpu):
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))


def autocast_to(kind: torch.dtype | None, device: torch.device) -> torch.autocast:
    """Return a context in which products are of that type; None leaves them as they are."""
    return torch.autocast(device.type, kind, enabled=kind is not None)


@contextmanager
def determinism(engine: EngineConfig) -> Iterator[None]:
    """Take only algorithms that give the same bits each time, where the settings ask for it."""
    if not engine.deterministic:
        yield  # untouched: even to say no imports torch's compiler, for seconds
        return
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # without it cuBLAS refuses
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before)
