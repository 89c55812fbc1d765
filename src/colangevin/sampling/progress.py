"""How far a sampling is: a bar on a terminal, or a function of the user."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, TypeAlias

Progress: TypeAlias = "bool | Callable[[int], None] | None"


def wanted(progress: Progress) -> bool:
    """Whether there is something to tell: None asks for a bar where somebody looks at a terminal.

    Example:
        >>> wanted(print), wanted(False)
        (True, False)
    """
    if progress is None:
        return sys.stderr is not None and sys.stderr.isatty() and find_spec("rich") is not None
    return bool(progress)


@contextmanager
def told(progress: Progress, steps: int) -> Iterator[Callable[[int], None]]:
    """A function that is told of steps made.

    Args:
        progress: as in ``sample``.
        steps: how many there will be, roughly.

    Example:
        >>> with told(print, 10) as report:
        ...     report(3)
        ...     report(2)
        3
        5
    """
    done = 0
    if not wanted(progress):
        yield lambda count: None
        return

    def report(count: int) -> None:
        nonlocal done
        done += count
        tell(done)

    if callable(progress):
        tell: Callable[[int], Any] = progress
        yield report
        return
    from rich.console import Console
    from rich.progress import Progress as Bar

    with Bar(console=Console(stderr=True), transient=progress is None) as bar:
        task = bar.add_task("steps", total=steps)
        tell = lambda count: bar.update(task, completed=count)  # noqa: E731
        yield report
