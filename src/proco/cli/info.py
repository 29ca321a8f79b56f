"""`proco info`: what a bug report needs."""

import platform
from importlib.metadata import PackageNotFoundError, version

import typer

from proco import __version__


def info() -> None:
    """Show the versions and devices a bug report needs."""
    import torch

    typer.echo(f"proco   {__version__}")
    typer.echo(f"python  {platform.python_version()} on {platform.platform()}")
    typer.echo(f"torch   {torch.__version__}")
    typer.echo(f"numpy   {_version_of('numpy')}")
    accelerator = torch.accelerator.current_accelerator(check_available=True)
    if accelerator is None:
        typer.echo(f"device  cpu, {torch.get_num_threads()} threads")
    else:
        names = {torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())} or {accelerator.type}
        typer.echo(f"device  {torch.accelerator.device_count()} x {', '.join(sorted(names))}")


def _version_of(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
