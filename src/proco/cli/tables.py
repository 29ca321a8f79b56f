"""What is printed on the terminal: names of the user's as they are, and tables of results."""

from collections.abc import Iterable, Mapping, Sequence
from math import isclose
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from torch import Tensor

_NAME_WIDTH = 10  # what a name has at least, however narrow the terminal
_SHOWN = 0.1  # percent: finer differences are not seen in a table
_SCARCE = 30  # images: one more that is recognised is more than three points


def make_console() -> Console:
    """Return a console that takes no word for an instruction: a class may be called `[red]`."""
    return Console(markup=False, highlight=False)


def percent(value: float | None) -> str:
    """Write an accuracy; an empty group has none."""
    return "-" if value is None else f"{value:.1f}"


def headings(summaries: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return what a table shows of summaries, and under which heading; the last is what to go by.

    That is the accuracy of all images where classes have equally many of them, and else the mean of the classes': of
    uneven images the frequent classes have most, and what ignores the rare ones looks good on them.
    """
    is_even = all(isclose(summary["top1"], summary["balanced_accuracy"], abs_tol=_SHOWN / 2) for summary in summaries)
    shown = {"many": "many", "medium": "medium", "few": "few", "top1": "all"}
    return shown if is_even else shown | {"balanced_accuracy": "balanced"}


def accuracy_table(title: str, columns: Iterable[str]) -> Table:
    """Return an empty table: a column for names, which go on in another line where they do not fit, and of numbers."""
    table = Table(title=title, box=box.SIMPLE, title_justify="left")
    table.add_column("", overflow="fold", min_width=_NAME_WIDTH)
    for name in columns:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def show_accuracies(console: Console, title: str, name: str, summary: Mapping[str, Any]) -> None:
    """Print a row of what headings shows of a summary."""
    shown = headings([summary])
    *_, (key, heading) = shown.items()
    tables = []
    for columns in (shown, {key: heading}):
        table = accuracy_table(title, columns.values())
        table.add_row(name, *(percent(summary[column]) for column in columns))
        tables.append(table)
    print_fitting(console, tables)
    explain_balanced(console, shown)


def print_fitting(console: Console, tables: Sequence[Table]) -> None:
    """Print the first of the tables that fits the console, else the last, which lacks the groups."""
    unbounded = console.options.update(width=1000)
    fitting = (table for table in tables if console.measure(table, options=unbounded).maximum <= console.width)
    table = next(fitting, tables[-1])
    console.print(table)
    if table is tables[-1] and len(tables[0].columns) > len(table.columns):
        console.print("groups of classes do not fit here; they are in the summary.json of each run.")


def warn_of_scarcity(console: Console, class_counts: "Tensor", labels: "Tensor") -> None:
    """Say of how few images a group's accuracy is, where one image more or less would change it by points."""
    from proco.evaluation.shot_groups import group_sizes

    scarce = [f"{name}: {size}" for name, size in group_sizes(class_counts, labels).items() if 0 < size < _SCARCE]
    if scarce:
        console.print(f"note: few images were evaluated ({', '.join(scarce)}); such figures say little.")


def explain_balanced(console: Console, shown: Mapping[str, str]) -> None:
    """Say what `balanced` means where it is shown."""
    if "balanced_accuracy" in shown:
        console.print("balanced: the mean of the classes' accuracies; go by it, as these images are uneven.")
