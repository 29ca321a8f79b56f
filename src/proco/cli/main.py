"""The `proco` command: its sub-commands, and one line instead of a traceback for what the user can mend."""

import io
import os
import sys
from typing import Annotated

import typer

from proco import __version__
from proco.cli import catalogue, compare, data, evaluate, info, train
from proco.cli.memory import keep_freed_memory
from proco.errors import ProCoError

app = typer.Typer(
    help="Train image classifiers on unevenly filled classes, and say how good they are.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command("train")(train.train)
app.command("evaluate")(evaluate.evaluate)
app.command("compare")(compare.compare)
app.add_typer(data.app, name="data")
app.command("methods")(catalogue.methods)
app.command("recipes")(catalogue.recipes)
app.command("settings")(catalogue.settings)
app.command("info")(info.info)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"proco {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Train image classifiers on unevenly filled classes, and say how good they are."""


def main() -> None:
    """Run the command line."""
    # Threads that wait for each other sleep instead of spinning: a tenth slower on an idle CPU, but on a busy one
    # spinning makes a step ten times slower. OpenMP reads this when torch is loaded.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    keep_freed_memory()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a letter that a terminal does not have must not end a run
    try:
        app()
    except ProCoError as error:
        typer.echo(f"proco: {error}", err=True)
        sys.exit(1)
    except (RuntimeError, MemoryError) as error:
        from proco.training.shortage import shortage_in

        asked = shortage_in(error)
        if asked is None:
            raise
        typer.echo(f"proco: out of memory ({asked}). Less is needed by a smaller network or data.size.", err=True)
        sys.exit(1)
    except OSError as error:  # a full disk, a folder that may not be written to
        typer.echo(f"proco: {error}", err=True)
        sys.exit(1)
