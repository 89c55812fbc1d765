"""Whether this processor can do an arithmetic, found out where a crash does no harm.

Some virtual machines advertise instructions (such as AMX) that they do not grant. A product in
bfloat16 then ends the process by a signal, which no ``try`` can catch. So it is tried out in a
child process first.
"""

from __future__ import annotations

import subprocess
import sys
from functools import cache

PROBE = """
import torch
for rows, columns in (7, 33), (64, 32), (64, 64), (64, 576), (256, 256):
    a = torch.ones(rows, columns, dtype=torch.{name})
    square = a @ a.mT
    assert float(square[0, 0]) == columns
    torch.addmm(a, square, a)
"""
SECONDS = 120.0
"""Time for the probe; importing torch takes nearly all of it."""


@cache
def products_work(name: str) -> bool:
    """Whether matrix products of a dtype work on this processor; asked once per process.

    Args:
        name: of the dtype, such as ``bfloat16``.

    Example:
        >>> products_work("float32")
        True
    """
    return survives(PROBE.format(name=name))


def survives(program: str, seconds: float = SECONDS) -> bool:
    """Whether a Python program comes to its end in a process of its own.

    An error, a signal and a program that takes too long all count as no.

    Example:
        >>> survives("1 + 1"), survives("1 / 0")
        (True, False)
    """
    try:
        done = subprocess.run(
            [sys.executable, "-c", program],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=seconds,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
