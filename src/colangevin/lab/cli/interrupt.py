"""Ctrl-C as a wish to stop, not as an accident."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from rich.console import Console

STOPPING = "Stopping after this epoch … (Ctrl-C again ends at once)"


@contextmanager
def interrupt_flag(heard: Callable[[], None] = lambda: None) -> Iterator[Callable[[], bool]]:
    """Let the first Ctrl-C ask for an end between two steps; a second one ends at once.

    Args:
        heard: called at the first one, at once.
    """
    flag = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield flag.is_set  # signals reach only the main thread
        return

    def handle(number: int, frame: object) -> None:
        # Not the one before: a program that was started in the background ignores Ctrl-C.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        flag.set()
        heard()

    previous = signal.signal(signal.SIGINT, handle)
    try:
        yield flag.is_set
    finally:
        signal.signal(signal.SIGINT, previous)


def stopping_flag(console: Console) -> AbstractContextManager[Callable[[], bool]]:
    """The same, and the user is told at once that the program has heard it."""
    return interrupt_flag(lambda: console.print(STOPPING, highlight=False))


@contextmanager
def uninterrupted() -> Iterator[None]:
    """For the last words of a program that ends anyway: Ctrl-C would only cut them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
