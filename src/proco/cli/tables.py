"""What is printed on the terminal: names of the user's as they are, and tables of results."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

GROUPS = ("many", "medium", "few")


def make_console() -> Console:
    """Return a console that takes no word for an instruction: a class may be called `[red]`."""
    return Console(markup=False, highlight=False)


def percent(value: float | None) -> str:
    """Write an accuracy; an empty group has none."""
    return "-" if value is None else f"{value:.1f}"


def accuracy_table(title: str) -> Table:
    """Return an empty table: a column for names, then many, medium, few and all."""
    table = Table(title=title, box=box.SIMPLE, title_justify="left")
    table.add_column("")
    for name in (*GROUPS, "all"):
        table.add_column(name, justify="right")
    return table


def show_accuracies(console: Console, title: str, rows: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
    """Print many, medium, few and all of each named summary."""
    table = accuracy_table(title)
    for name, summary in rows:
        table.add_row(name, *(percent(summary[group]) for group in GROUPS), percent(summary["top1"]))
    console.print(table)
