"""`proco data`: look at data before training on it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import Console

app = typer.Typer(help="Look at data before training on it.", no_args_is_help=True)

_BARS_AT_MOST = 40


@app.callback()
def root() -> None:
    """Look at data before training on it."""


@app.command()
def describe(
    path: Annotated[Path, typer.Argument(help="A folder of class folders, a CSV or TSV manifest, or an npz.")],
) -> None:
    """Count the images of each class: imbalance, shot groups and a bar chart."""
    from proco.cli.progress import file_progress
    from proco.cli.tables import make_console
    from proco.data.describe import describe as describe_dataset
    from proco.data.prepare import DataConfig, prepare
    from proco.data.source import source_of
    from proco.evaluation.shot_groups import shot_groups

    console = make_console()
    with file_progress(console) as progress:
        dataset = prepare(DataConfig(source=source_of(path)), progress)
    facts = describe_dataset(dataset)
    counts = dataset.class_counts
    sizes = ", ".join(f"{name} {len(split.labels)}" for name, split in dataset.splits.items())
    console.print(f"{dataset.name}: {dataset.num_classes} classes; images: {sizes}")
    console.print(
        f"training images of a class: {facts.largest} to {facts.smallest}, median {facts.median:g}; imbalance factor "
        f"{facts.imbalance:.1f}"
    )
    groups = shot_groups(counts)
    described = {"many": "more than 100", "medium": "20 to 100", "few": "fewer than 20"}
    console.print(
        "classes by shots: "
        + "; ".join(f"{name} ({described[name]} images): {int(mask.sum())}" for name, mask in groups.items())
    )
    for note in dataset.notes:
        console.print(f"note: {note}")
    _show_bars(console, dataset.class_names, counts.tolist())


def _show_bars(console: "Console", names: tuple[str, ...], counts: list[int]) -> None:
    """Print a bar for each class, the largest first; where there are too many, evenly spaced ranks of them."""
    order = sorted(range(len(counts)), key=lambda i: -counts[i])
    shown = order
    if len(order) > _BARS_AT_MOST:
        ranks = sorted({round(i * (len(order) - 1) / (_BARS_AT_MOST - 1)) for i in range(_BARS_AT_MOST)})
        shown = [order[rank] for rank in ranks]
        console.print(f"{len(shown)} of {len(order)} classes, evenly spaced by rank:")
    widest = min(max(len(names[i]) for i in shown), 30)
    room = max(console.width - widest - 12, 10)
    for i in shown:
        bar = "█" * max(1, round(room * counts[i] / counts[order[0]]))
        console.print(f"{names[i][:widest]:>{widest}} {bar} {counts[i]}", no_wrap=True)
