"""Connecting to a Ray cluster: quickly, or with one clear error."""

from __future__ import annotations

import contextlib
import importlib
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

from colangevin.lab.runner.workers import processors

REACH_SECONDS = 10.0
"""How long a machine may take to answer at all."""
CONNECT_SECONDS = 60.0
"""How long Ray may take to answer there."""
PROBE = """
import sys, ray
ray.init(sys.argv[1], logging_level="CRITICAL", log_to_driver=False)
ray.nodes()
"""


class Resources(NamedTuple):
    """What a cluster has.

    Attributes:
        cpus: processors of all machines.
        largest: processors of the machine that has the most.
        gpus: GPUs of all machines.
        most_gpus: GPUs of the machine that has the most.
    """

    cpus: float
    largest: float
    gpus: float
    most_gpus: float


def ray_module() -> Any:
    """The package ray.

    Raises:
        ValueError: if it is not installed, naming the extra.
    """
    try:
        return importlib.import_module("ray")
    except ModuleNotFoundError:
        raise ValueError(
            'the engine ray needs the package ray: run pip install ".[ray]" in a clone of '
            "colangevin"
        ) from None


@contextlib.contextmanager
def connected(address: str | None) -> Iterator[Resources]:
    """Connect this process to a cluster, or start Ray on this machine; leave it in the end.

    Args:
        address: of the cluster; None for ``RAY_ADDRESS``, or else for this machine alone.

    Raises:
        ValueError: if Ray is not installed, or the address is none.
        OSError: if the cluster cannot be reached.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # no report to anybody
    ray = ray_module()
    place = address or os.environ.get("RAY_ADDRESS") or "local"
    options: dict[str, Any] = {"logging_level": "ERROR"}
    if place == "local":
        options |= {"num_cpus": processors(), "include_dashboard": False}
    else:
        check_address(place)
    try:
        ray.init(place, **options)
    except Exception as error:  # Ray raises many kinds, all of them about the connection
        raise OSError(f"cannot start or reach Ray at {place}: {_first_line(error)}") from None
    try:
        yield _resources(ray.nodes())
    finally:
        ray.shutdown()


def _resources(nodes: Any) -> Resources:
    alive = [node["Resources"] for node in nodes if node["Alive"]]
    cpus = [node.get("CPU", 0.0) for node in alive]
    gpus = [node.get("GPU", 0.0) for node in alive]
    return Resources(sum(cpus), max(cpus, default=0.0), sum(gpus), max(gpus, default=0.0))


def check_address(address: str) -> None:
    """Find out whether a cluster answers, in a process of its own.

    Ray itself waits for minutes, and cannot be interrupted.

    Raises:
        ValueError: if this is no address.
        OSError: if nobody answers, or somebody who is not Ray.

    Example:
        >>> check_address("port 7")
        Traceback (most recent call last):
        ...
        ValueError: address must be host:port, ray://host:port or auto, got 'port 7'
    """
    if address != "auto":
        found = re.fullmatch(r"(?:ray://)?\[?([\w.:-]+?)\]?:(\d{1,5})", address)
        if found is None or int(found[2]) > 65535:
            raise ValueError(f"address must be host:port, ray://host:port or auto, got {address!r}")
        try:
            socket.create_connection((found[1], int(found[2])), timeout=REACH_SECONDS).close()
        except OSError as error:
            raise OSError(f"no Ray cluster at {address}: {error}") from None
    try:
        command = [sys.executable, "-c", PROBE, address]
        done = subprocess.run(command, capture_output=True, text=True, timeout=CONNECT_SECONDS)
    except subprocess.TimeoutExpired:
        wait = f"{CONNECT_SECONDS:g} seconds"
        raise OSError(f"no Ray cluster at {address}: no answer within {wait}") from None
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["Ray ended without a word"]
        raise OSError(f"no Ray cluster at {address}: {lines[-1]}")


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
