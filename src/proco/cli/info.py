"""`proco info`: what a bug report needs."""

import platform

import typer

from proco import __version__


def info() -> None:
    """Show the versions and devices a bug report needs."""
    import torch

    from proco.training.made_with import version_of

    typer.echo(f"proco   {__version__}")
    typer.echo(f"python  {platform.python_version()} on {platform.platform()}")
    typer.echo(f"torch   {torch.__version__}")
    typer.echo(f"numpy   {version_of('numpy') or 'not installed'}")
    accelerator = torch.accelerator.current_accelerator(check_available=True)
    if accelerator is None:
        typer.echo(f"device  cpu, {torch.get_num_threads()} threads")
    else:
        names = {torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())} or {accelerator.type}
        typer.echo(f"device  {torch.accelerator.device_count()} x {', '.join(sorted(names))}")
