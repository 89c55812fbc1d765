"""What a result was measured on."""

from __future__ import annotations

import platform
from pathlib import Path


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
