"""What a result was measured on, and with how many threads."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch


def cpu_name() -> str:
    """Return the processor's name, as well as the system tells it.

    Example:
        >>> cpu_name() != ""
        True
    """
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine() or "unknown"


@contextmanager
def threads(count: int | None) -> Iterator[None]:
    """Let torch use so many threads, and as many as before afterwards; None leaves it alone.

    Example:
        >>> with threads(1):
        ...     torch.get_num_threads()
        1
    """
    before = torch.get_num_threads()
    if count is not None:
        torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
