"""What a result was measured on, and with how many threads."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path
from typing import Any

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


def surroundings() -> dict[str, Any]:
    """What the last digits of a result may depend on, beside the library and the settings.

    Example:
        >>> list(surroundings())
        ['torch', 'python', 'system', 'cpu', 'threads']
    """
    return {
        "torch": torch.__version__,
        "python": platform.python_version(),
        "system": platform.system(),
        "cpu": cpu_name(),
        "threads": torch.get_num_threads(),
    }


def circumstances(device: torch.device, packages: Sequence[str] = ()) -> dict[str, Any]:
    """What a time depends on and a reader must know: versions, machine, date.

    Args:
        device: where the work is done.
        packages: whose versions matter as well.

    Example:
        >>> circumstances(torch.device("cpu"), ["no-such-package"])["no-such-package"]
        'not installed'
    """
    return {
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d"),
        **surroundings(),
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "cores": os.cpu_count(),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
        "load": load_average(),
        **{name: version(name) for name in packages},
    }


def load_average() -> float | None:
    """Processes that ran in the last minute, on average: above 0 the machine was not idle."""
    try:
        return round(os.getloadavg()[0], 2)
    except (AttributeError, OSError):
        return None


def version(package: str) -> str:
    """Of an installed package, or that it is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


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
