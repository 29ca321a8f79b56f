"""Freed memory is there for what asks next."""

import os
import platform
import subprocess
import sys

import pytest

_CODE = """
import resource
import torch
from proco.cli.memory import keep_freed_memory

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

if {keep}:
    keep_freed_memory()
torch.ones(48 * 2**18)
before = faults()
for quarters in range(47, 37, -1):  # each smaller, so that it fits where the last one was
    torch.ones(quarters * 2**18)
print(faults() - before)
"""

pytestmark = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc's allocator is told")


def page_faults(*, keep: bool, **variables: str) -> int:
    """How often a page was asked of the system for ten tensors of 38 to 47 MiB, one after the other."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    command = [sys.executable, "-c", _CODE.format(keep=keep)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120, env=clean | variables)
    return int(done.stdout)


def test_a_block_that_was_freed_is_used_again() -> None:
    kept, given_back = page_faults(keep=True), page_faults(keep=False)
    assert kept < 0.2 * given_back
    # Who has said how it is to be is not overruled.
    assert page_faults(keep=True, MALLOC_TOP_PAD_="0") > 0.8 * given_back
