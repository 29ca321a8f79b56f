"""`proco data`: look at data before training on it."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from proco.data.prepare import DataConfig

app = typer.Typer(help="Look at data before training on it.", no_args_is_help=True)

_BARS_AT_MOST = 40


@app.callback()
def root() -> None:
    """Look at data before training on it."""


@app.command()
def describe(
    path: Annotated[Path, typer.Argument(help="A folder of class folders, a CSV or TSV manifest, or an npz.")],
    settings: Annotated[
        list[str] | None,
        typer.Argument(metavar="[SETTING=VALUE]...", help="Settings of the data, as for proco train."),
    ] = None,
) -> None:
    """Count the images of each class: imbalance, shot groups and a bar chart."""
    from proco.cli.progress import file_progress
    from proco.cli.tables import make_console
    from proco.data.describe import describe as describe_dataset
    from proco.data.file_source import BadImagesError
    from proco.data.prepare import prepare
    from proco.evaluation.shot_groups import FEW_BELOW, MANY_ABOVE, shot_groups

    console = make_console()
    try:
        with file_progress(console) as progress:
            dataset = prepare(data_settings(path, settings or []), progress)
    except BadImagesError as error:
        for file, reason in error.reasons.items():
            console.print(f"{file}: {reason}", soft_wrap=True)
        raise
    facts = describe_dataset(dataset)
    sizes = ", ".join(f"{name} {size}" for name, size in facts.split_sizes.items())
    console.print(f"{facts.name}: {facts.num_classes} classes; images: {sizes}")
    console.print(
        f"training images of a class: {facts.largest} to {facts.smallest}, median {facts.median:g}; imbalance factor "
        f"{facts.imbalance:.1f}"
    )
    described = {
        "many": f"more than {MANY_ABOVE}",
        "medium": f"{FEW_BELOW} to {MANY_ABOVE}",
        "few": f"fewer than {FEW_BELOW}",
    }
    groups = shot_groups(dataset.class_counts)
    console.print(
        "classes by shots: "
        + "; ".join(f"{name} ({described[name]} images): {int(mask.sum())}" for name, mask in groups.items())
    )
    for note in facts.notes:
        console.print(f"note: {note}")
    _show_bars(console, facts.class_counts)


def data_settings(path: Path, assignments: list[str]) -> "DataConfig":
    """Return the settings of data at path, with those of the command line over them."""
    from proco.config import as_settings, merge, read_assignments
    from proco.data.source import source_of
    from proco.errors import ConfigError
    from proco.training.settings import TrainConfig

    overrides = read_assignments(assignments)
    if other := [name for name in overrides if name != "data"]:
        raise ConfigError(f"only settings of the data have a meaning here, data.NAME=VALUE; got {other[0]}.")
    return merge(TrainConfig, {"data": {"source": as_settings(source_of(path))}}, overrides).data


def _show_bars(console: "Console", class_counts: Mapping[str, int]) -> None:
    """Print a bar for each class, the largest first; where there are too many, evenly spaced ranks of them."""
    classes = list(class_counts.items())
    shown = classes
    if len(classes) > _BARS_AT_MOST:
        ranks = sorted({round(i * (len(classes) - 1) / (_BARS_AT_MOST - 1)) for i in range(_BARS_AT_MOST)})
        shown = [classes[rank] for rank in ranks]
        console.print(f"{len(shown)} of {len(classes)} classes, evenly spaced by rank:")
    widest = min(max(len(name) for name, _ in shown), 30)
    room = max(console.width - widest - 12, 10)
    for name, count in shown:
        bar = "█" * max(1, round(room * count / classes[0][1]))
        console.print(f"{name[:widest]:>{widest}} {bar} {count}", no_wrap=True)
