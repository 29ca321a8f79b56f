"""Shared by all tests: the devices of this machine."""

import os
import sys

import pytest

# Before torch: the workers of a test run share the cores, and threads that spin while they wait starve each other.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import torch

if not torch.cuda.is_available():
    # Before Triton: without a GPU its kernels are interpreted.
    os.environ.setdefault("TRITON_INTERPRET", "1")

DEVICES = [torch.device("cpu")]
if torch.accelerator.is_available():
    DEVICES.append(torch.accelerator.current_accelerator())  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def _fresh_compiler() -> None:
    """Forget compiled graphs: torch keeps eight variants of a function in a process and refuses the ninth."""
    if "torch._dynamo" in sys.modules:
        torch.compiler.reset()


@pytest.fixture(params=DEVICES, ids=str)
def device(request: pytest.FixtureRequest) -> torch.device:
    """The CPU and, where there is one, the accelerator."""
    return request.param  # type: ignore[no-any-return]
