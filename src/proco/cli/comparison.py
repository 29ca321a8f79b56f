"""The table of several recipes over several seeds."""

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from statistics import mean, stdev
from typing import Any

from rich.console import Console
from rich.table import Table

from proco.cli.tables import accuracy_table, explain_balanced, headings, print_fitting

Summary = Mapping[str, Any]


def show_comparison(console: Console, summaries: Mapping[str, Sequence[Summary]], seeds: Sequence[int]) -> None:
    """Print a table of the summaries of each named recipe, one a seed, and their differences to the first recipe's.

    The folder that all names begin with is left out. Where the console is narrow, groups lose their spreads, and then
    their columns.
    """
    folders = {f"{PurePosixPath(name).parent}/" for name in summaries}
    shared = folders.pop() if len(folders) == 1 else ""
    named = {name.removeprefix(shared): runs for name, runs in summaries.items()}
    shown = headings(summary for runs in named.values() for summary in runs)
    *_, (key, heading) = shown.items()
    tables = [
        _comparison_table(named, seeds, shown),
        _comparison_table(named, seeds, shown, spreads_of_groups=False),
        _comparison_table(named, seeds, {key: heading}),
    ]
    print_fitting(console, tables)
    explain_balanced(console, shown)
    if len(summaries) > 1:
        console.print(f"difference: of {heading} to {next(iter(named))}, seed by seed")


def _comparison_table(
    summaries: Mapping[str, Sequence[Summary]],
    seeds: Sequence[int],
    shown: Mapping[str, str],
    *,
    spreads_of_groups: bool = True,
) -> Table:
    first = next(iter(summaries.values()))
    *_, decisive = shown
    figures = ", mean ± standard deviation" if len(seeds) > 1 else ""
    number = f"seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}"
    title = f"accuracy on {first[0]['split']}, last epoch, %, {number}{figures}"
    table = accuracy_table(title, [*shown.values(), *(["difference"] if len(summaries) > 1 else [])])
    for name, runs in summaries.items():
        cells = [
            spread([run[key] for run in runs], mean_alone=key != decisive and not spreads_of_groups) for key in shown
        ]
        if len(summaries) > 1:
            differences = [run[decisive] - base[decisive] for run, base in zip(runs, first, strict=True)]
            cells.append("" if runs is first else spread(differences, signed=True))
        table.add_row(name, *cells)
    return table


def spread(values: Sequence[float | None], *, signed: bool = False, mean_alone: bool = False) -> str:
    """Write mean and standard deviation of the values that are there."""
    known = [value for value in values if value is not None]
    if not known:
        return "-"
    text = f"{mean(known):{'+' if signed else ''}.1f}"
    return text + (f" ± {stdev(known):.1f}" if len(known) > 1 and not mean_alone else "")
