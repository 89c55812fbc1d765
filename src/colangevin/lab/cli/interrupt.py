"""Ctrl-C as a wish to stop, not as an accident."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def interrupt_flag() -> Iterator[Callable[[], bool]]:
    """Let the first Ctrl-C ask for an end between two steps; a second one ends at once."""
    flag = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield flag.is_set  # signals reach only the main thread
        return

    def handle(number: int, frame: object) -> None:
        flag.set()
        signal.signal(signal.SIGINT, previous)

    previous = signal.signal(signal.SIGINT, handle)
    try:
        yield flag.is_set
    finally:
        signal.signal(signal.SIGINT, previous)
