"""What a run was made with: versions, commit and machine, for whoever wants to repeat it."""

import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

import proco


def made_with(device: torch.device) -> dict[str, str]:
    """Return versions, the commit where the source is a checkout, and the device, as text."""
    on_gpu = device.type == "cuda"
    hardware = torch.cuda.get_device_name(device) if on_gpu else platform.processor() or platform.machine()
    facts = {
        "proco": proco.__version__,
        "commit": source_commit(),
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "torchvision": version_of("torchvision"),
        "timm": version_of("timm"),
        "device": device.type,
        "hardware": hardware,
        "threads": str(torch.get_num_threads()),
    }
    return {name: value for name, value in facts.items() if value}


def source_commit() -> str:
    """Return the commit of the source, with a + where files were changed since, or nothing outside of a checkout.

    Who copies the source to another machine names the commit in PROCO_COMMIT.
    """
    if "PROCO_COMMIT" in os.environ:
        return os.environ["PROCO_COMMIT"]
    source = Path(proco.__file__).parent

    def git(*arguments: str) -> str:
        done = subprocess.run(["git", "-C", str(source), *arguments], capture_output=True, text=True, check=True)
        return done.stdout.strip()

    try:
        git("ls-files", "--error-unmatch", "__init__.py")  # an installed copy may lie in another project's checkout
        return git("rev-parse", "HEAD") + ("+" if git("status", "--porcelain", "--", str(source)) else "")
    except (OSError, subprocess.CalledProcessError):
        return ""


def version_of(package: str) -> str:
    """Return the version of an installed package, or nothing."""
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
