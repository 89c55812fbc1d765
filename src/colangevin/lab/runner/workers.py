"""Several long computations at once, each in its process, with progress and an early end.

Why no pool of a library: those of ``concurrent.futures``, ``joblib`` and ``loky`` know neither
progress nor an early end. If one process dies they end all others at once, which then cannot save.
If the program itself is killed, their processes stay behind; these end with their next message.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import sys
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from typing import Any, TypeAlias, TypeVar

from colangevin.errors import ColangevinError

T = TypeVar("T")
R = TypeVar("R")

KeepGoing: TypeAlias = Callable[[float], bool]
"""Told how much is done; returns whether to go on."""

Report: TypeAlias = Callable[[int, float], bool]
"""Told which task has done how much; returns whether to go on."""

POLL_SECONDS = 0.1

STOP = b"stop"
DONE, RESULT, ERROR = "done", "result", "error"


def processors() -> int:
    """Return the number of processors that this process may use.

    Example:
        >>> processors() >= 1
        True
    """
    if hasattr(os, "sched_getaffinity"):  # Linux: fewer than the machine has, in a container
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def run_queue(
    work: Callable[[T, KeepGoing], R], tasks: Sequence[T], report: Report, processes: int
) -> dict[int, R]:
    """Do tasks in turn, ``processes`` of them at once; with one process, in the calling one.

    Several are spawned, and import the main module again: a script that calls this needs
    ``if __name__ == "__main__":``.

    Args:
        work: A function at module level; it and its tasks and results can be pickled. It calls
            ``keep_going(done)`` now and then, and returns early where that returns False.
        tasks: The arguments.
        report: Called in this process with the index of a task and how much of it is done, and
            with -1 and 0 while nothing happens. Once it returns False, tasks that are at work end
            early and the others are not begun.
        processes: How many to start at most.

    Returns:
        The results by index, of the tasks that were begun.

    Raises:
        RuntimeError: if a process ended without a result. Whatever a task raises is raised here.
            Either way, the tasks that are at work end early first.

    Example:
        >>> run_queue(lambda task, keep_going: task * 2, [21, 34], lambda index, done: True, 1)
        {0: 42, 1: 68}
    """
    if processes == 1 or len(tasks) == 1:
        return _in_turn(work, tasks, report)
    with _interrupts_blocked():
        links = [_start() for _ in range(min(processes, len(tasks)))]
    try:
        queue = _Queue([pickle.dumps((work, task)) for task in tasks], links)
        return queue.run(report)
    finally:
        for link in links:
            link.close()  # a process that is still at work ends with its next message


def _in_turn(work: Callable[[T, KeepGoing], R], tasks: Sequence[T], report: Report) -> dict[int, R]:
    results: dict[int, R] = {}
    going = True

    def keep_going(done: float) -> bool:
        nonlocal going
        going = report(len(results), done) and going
        return going

    for task in tasks:
        if results and not (going and report(-1, 0)):
            break
        results[len(results)] = work(task, keep_going)
    return results


def _start() -> Connection:
    """Start a process and return this end of the pipe to it."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    context.Process(target=_serve, args=(there,), daemon=True).start()
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


class _Queue:
    """The tasks, shared out over processes as these become free."""

    def __init__(self, payloads: Sequence[bytes], links: Sequence[Connection]) -> None:
        self._waiting = deque(enumerate(payloads))
        self._idle = list(links)
        self._busy: dict[Connection, int] = {}
        self._results: dict[int, Any] = {}
        self._failure: BaseException | None = None
        self._going = True

    def run(self, report: Report) -> dict[int, Any]:
        self._hand_out()
        while self._busy:
            ready = wait(list(self._busy), timeout=POLL_SECONDS)
            going = report(-1, 0) if not ready else True
            for link in ready:
                going = self._take(link, report) and going  # type: ignore[arg-type]
            if not going and self._going:
                self._going = False
                for link in self._busy:
                    _ask_to_stop(link)
            self._hand_out()
        if self._failure is not None:
            raise self._failure
        return self._results

    def _hand_out(self) -> None:
        while self._going and self._waiting and self._idle:
            link = self._idle.pop()
            index, payload = self._waiting.popleft()
            with suppress(OSError):  # it may have just ended: that shows when it is read
                link.send_bytes(payload)
            self._busy[link] = index

    def _take(self, link: Connection, report: Report) -> bool:
        """Read one message of a process; return whether to go on."""
        kind, content = _receive(link)
        if kind == DONE:
            return report(self._busy[link], content)
        index = self._busy.pop(link)
        if kind == ERROR:
            self._failure = self._failure or content
            return False
        self._results[index] = content
        self._idle.append(link)
        return True


def _receive(link: Connection) -> tuple[str, Any]:
    """Read how much is done, a result, or an error.

    Plain bytes: torch would send tensors through shared memory, which is gone when the process
    that made it ends.
    """
    try:
        message: tuple[str, Any] = pickle.loads(link.recv_bytes())
    except (EOFError, OSError):
        return ERROR, RuntimeError("a worker process ended without a result")
    return message


def _ask_to_stop(link: Connection) -> None:
    with suppress(OSError):  # it may have just ended by itself
        link.send_bytes(STOP)


class _Alone(BaseException):
    """The process that started this one is gone: nobody waits for a result."""


def _serve(link: Connection) -> None:
    """Do tasks in a process of its own, until the pipe is closed or it is asked to stop."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # where no mask is inherited

    def send(kind: str, content: Any) -> None:
        try:
            link.send_bytes(pickle.dumps((kind, content)))
        except OSError:
            raise _Alone from None

    def keep_going(done: float) -> bool:
        send(DONE, done)
        return not link.poll()

    with suppress(_Alone, EOFError, ConnectionError):
        while (message := link.recv_bytes()) != STOP:
            send(*outcome(message, keep_going))


def outcome(message: bytes, keep_going: KeepGoing) -> tuple[str, Any]:
    """Do a pickled pair of work and task; return what came of it: a result, or an error."""
    try:
        work, task = pickle.loads(message)
        return RESULT, work(task, keep_going)
    except Exception as error:
        error.__cause__ = None
        return ERROR, _portable(error)


def _portable(error: Exception) -> Exception:
    """The error itself if it can be sent, else one with its text."""
    # These say by themselves what is wrong: bad data, a full disk.
    if not isinstance(error, (ColangevinError, OSError)):
        traceback.print_exc()
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error
