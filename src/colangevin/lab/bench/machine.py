"""What a result depends on and a reader must know: processor, threads, versions, date."""

from __future__ import annotations

import os
import platform
from datetime import datetime, timezone
from importlib import metadata
from typing import Any

import torch

import colangevin
from colangevin.lab.machine import cpu_name

PACKAGES = ("geoopt", "geotorch", "pogo-torch")


def describe(device: torch.device) -> dict[str, Any]:
    """Plain values for the record."""
    return {
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d"),
        "cpu": cpu_name(),
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
        "load": load(),
        "system": platform.system(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "colangevin": colangevin.__version__,
        **{name: version(name) for name in PACKAGES},
    }


def version(package: str) -> str:
    """The installed version of a package."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def load() -> float | None:
    """Processes that ran in the last minute, on average: above 0 the machine was not idle."""
    try:
        return round(os.getloadavg()[0], 2)
    except (AttributeError, OSError):
        return None
