"""How numbers and tables are written on the page."""

from collections.abc import Mapping, Sequence

from benchmarks.measure import markdown

from tools.results.spread import Spread

NO_RUN = "no run yet"


def table(rows: Sequence[Mapping[str, str]]) -> str:
    """Return a Markdown table, or a sentence where there are no rows."""
    return markdown(rows) if rows else "No run yet."


def number(value: float | None, digits: int = 2, *, signed: bool = False) -> str:
    """Write a number; a dash stands for none."""
    return "-" if value is None else f"{value:{'+' if signed else ''}.{digits}f}"


def spread_or_no_run(spread: Spread | None) -> str:
    """Write mean, deviation and number of seeds."""
    return NO_RUN if spread is None else str(spread)
