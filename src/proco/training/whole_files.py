"""Files that are there as they were, or whole, whenever the process ends: written beside and moved into place."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_PARTIAL = ".partial"  # how the name of a file ends while it is written


@contextmanager
def moved_into_place(path: Path) -> Iterator[Path]:
    """Give a path to write to, and put what the block has written there in the place of the file.

    Where the block fails nothing is left of it: on a full disk it would keep it full.
    """
    beside = path.with_name(path.name + _PARTIAL)
    try:
        yield beside
    except Exception:
        beside.unlink(missing_ok=True)
        raise
    with beside.open("rb") as file:
        os.fsync(file.fileno())  # a rename must not overtake the data
    beside.replace(path)


def write_whole(path: Path, content: bytes) -> None:
    """Write a file in one go."""
    with moved_into_place(path) as beside:
        beside.write_bytes(content)


def is_partial(path: Path) -> bool:
    """Return whether a file is what a process left that ended while it wrote."""
    return path.name.endswith(_PARTIAL)
