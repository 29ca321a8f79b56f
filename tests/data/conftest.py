"""Small image files, and CIFAR-100 where the machine has it."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Protocol

import numpy as np
import pytest
from PIL import Image

SHARED = Path(__file__).parents[3] / "shared" / "data"


class WriteImage(Protocol):
    def __call__(self, path: Path, size: tuple[int, int] = (8, 6), seed: int = 0) -> Path: ...


@pytest.fixture
def write_image() -> WriteImage:
    """A function that writes an RGB image of random pixels, (width, height) in size, in the format of its suffix."""

    def write(path: Path, size: tuple[int, int] = (8, 6), seed: int = 0) -> Path:
        pixels = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(path)
        return path

    return write


@pytest.fixture(scope="session")
def cifar100_folder() -> Path:
    """A folder with cifar100.npz and the official cifar-100-python, unpacked once on a machine."""
    if not (SHARED / "cifar100").exists():
        pytest.skip("CIFAR-100 is not on this machine")
    folder = Path(tempfile.gettempdir()) / f"proco-tests-{os.getuid()}" / "cifar100"
    if not folder.exists():
        folder.parent.mkdir(exist_ok=True, mode=0o700)
        partial = Path(tempfile.mkdtemp(dir=folder.parent))
        subprocess.run([sys.executable, SHARED / "unpack.py", partial], check=True, capture_output=True)
        try:
            partial.rename(folder)
        except OSError:
            assert folder.exists()  # another process of this test run was faster
    return folder
