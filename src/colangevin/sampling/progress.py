"""How far a sampling is: a bar on a terminal, or a function of the user."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, Protocol, TypeAlias

Progress: TypeAlias = "bool | Callable[[int], None] | None"


class Report(Protocol):
    """Is told of steps made, and of what there is to say."""

    def __call__(self, count: int, note: str = "") -> None: ...


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
def told(progress: Progress, steps: int) -> Iterator[Report]:
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
        yield lambda count, note="": None
        return

    def report(count: int, note: str = "") -> None:
        nonlocal done
        done += count
        tell(done, note)

    if callable(progress):
        function = progress
        tell: Callable[[int, str], Any] = lambda count, note: None if note else function(count)  # noqa: E731
        yield report
        return
    from rich.console import Console
    from rich.progress import Progress as Bar

    with Bar(console=Console(stderr=True), transient=progress is None) as bar:
        task = bar.add_task("steps", total=steps)
        tell = lambda count, note: bar.update(  # noqa: E731
            task, completed=count, description=note or None
        )
        yield report
