"""Ctrl-C, which ends a command even where Python lets it pass."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def noted_interrupts() -> Iterator[threading.Event]:
    """Give an event that Ctrl-C sets, besides what it does otherwise: to raise KeyboardInterrupt wherever Python is.

    That may be in a destructor or the callback of a reference, out of which Python raises nothing. A loop that looks
    at the event ends all the same.
    """
    noted = threading.Event()
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:  # a caller's, or none in the background
        yield noted
        return

    def note(number: int, frame: FrameType | None) -> None:
        noted.set()
        signal.default_int_handler(number, frame)

    signal.signal(signal.SIGINT, note)
    try:
        yield noted
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
