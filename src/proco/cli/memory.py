"""What the process of a command does with memory that it frees."""

import ctypes
import os
from contextlib import suppress

_TRIM_THRESHOLD, _MMAP_MAX = -1, -4  # of glibc's malloc.h


def keep_freed_memory() -> None:
    """Keep freed memory for what asks next, where the C library is glibc.

    Every training step on a CPU asks for the blocks that the one before has freed. By default large ones go back to the
    system each time, and come again page by page: for small networks that is up to half of the time. The process holds
    more memory so; who has set glibc's own variables for it (MALLOC_TRIM_THRESHOLD_ and its like) is left alone.
    """
    if any(name.startswith("MALLOC_") for name in os.environ):
        return
    with suppress(AttributeError, OSError, TypeError):  # there is no such function, or no such library
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_TRIM_THRESHOLD, -1)  # never give back what lies at the end of the heap
        mallopt(_MMAP_MAX, 0)  # never map a block for itself
