"""Several long computations at once, each in its process, with progress and an early end."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")
R = TypeVar("R")

KeepGoing: TypeAlias = Callable[[int], bool]
"""Told how much is done; returns whether to go on."""

Report: TypeAlias = Callable[[int, int], bool]
"""Told which task has done how much; returns whether to go on."""

POLL_SECONDS = 0.1


def processors() -> int:
    """Return the number of processors that this process may use.

    Example:
        >>> processors() >= 1
        True
    """
    if hasattr(os, "sched_getaffinity"):  # Linux: fewer than the machine has, in a container
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def run_all(work: Callable[[T, KeepGoing], R], tasks: Sequence[T], report: Report) -> list[R]:
    """Return ``work(task, keep_going)`` for every task, computed at once if there are several.

    A single task runs in the calling process. Several run in spawned processes, which import
    the main module again: a script that calls this needs ``if __name__ == "__main__":``.

    Args:
        work: A function at module level; it and its tasks and results can be pickled. It calls
            ``keep_going(done)`` now and then, and returns early where that returns False.
        tasks: The arguments, one a process.
        report: Called in this process with the index of a task and how much of it is done, and
            with -1 and 0 while nothing happens. Once it returns False, every task ends early.

    Returns:
        The results, in the order of the tasks.

    Raises:
        RuntimeError: if a process ended without a result.

    Example:
        >>> run_all(lambda task, keep_going: task * 2, [21], lambda index, done: True)
        [42]
    """
    if len(tasks) == 1:
        return [work(tasks[0], lambda done: report(0, done))]
    with _interrupts_blocked():
        links = [_start(pickle.dumps((work, task))) for task in tasks]
    try:
        return _collect(links, report)
    finally:
        for link in links:
            link.close()  # a process that is still at work ends with its next message


def _start(payload: bytes) -> Connection:
    """Start a process for one task and return this end of the pipe to it."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    context.Process(target=_serve, args=(payload, there), daemon=True).start()
    there.close()
    return here


@contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Let processes that start now be deaf to Ctrl-C from the first, while they still import.

    It reaches every process of the terminal; what it means is for the calling one to say, which
    gets it a moment later.
    """
    if sys.platform == "win32":
        yield  # processes do not inherit a mask there
        return
    resource_tracker.ensure_running()  # started later, it would lift the mask again
    previous = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, previous)


def _collect(links: list[Connection], report: Report) -> list[Any]:
    results: dict[int, Any] = {}
    stopping = False
    while len(results) < len(links):
        open_links = [link for index, link in enumerate(links) if index not in results]
        ready = wait(open_links, timeout=POLL_SECONDS)
        going = report(-1, 0) if not ready else True
        for link in ready:
            index = links.index(link)  # type: ignore[arg-type]
            done, result = _receive(links[index])
            if done is None:
                results[index] = result
            else:
                going = report(index, done) and going
        if not going and not stopping:
            stopping = True
            for link in open_links:
                _ask_to_stop(link)
    return [results[index] for index in range(len(links))]


def _receive(link: Connection) -> tuple[int | None, Any]:
    """Read (how much is done, None), or (None, the result).

    Plain bytes: torch would send tensors through shared memory, which is gone when the process
    that made it ends.
    """
    try:
        message: tuple[int | None, Any] = pickle.loads(link.recv_bytes())
    except (EOFError, OSError):
        raise RuntimeError("a worker process ended without a result") from None
    return message


def _ask_to_stop(link: Connection) -> None:
    with suppress(OSError):  # it may have just ended by itself
        link.send_bytes(b"stop")


def _serve(payload: bytes, link: Connection) -> None:
    """Run one task in a process of its own."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # where no mask is inherited

    def keep_going(done: int) -> bool:
        link.send_bytes(pickle.dumps((done, None)))
        return not link.poll()

    work, task = pickle.loads(payload)
    with suppress(BrokenPipeError):  # the first process may be gone: nobody waits for the result
        link.send_bytes(pickle.dumps((None, work(task, keep_going))))
