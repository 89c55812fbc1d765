"""Compile the kernels with the C compiler of the system.

The build of a wheel uses this file on its own, so it imports nothing but the standard library.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TypeAlias

FOLDER = Path(__file__).parent
LIBRARIES = ("kernels", "stiefel")
"""Each is made of the C file of its name, when it is first needed."""

COMMON = (
    *("-std=c11", "-shared", "-fPIC"),
    # Loops marked for vectors are vectorised; no library comes with it.
    "-fopenmp-simd",
    # In products of matrices. Elsewhere every fused multiply-add is written out, and nothing is
    # left to fuse: so remainders of vectors get the same bits.
    "-ffp-contract=fast",
    *("-fno-math-errno", "-fno-trapping-math"),
)
FAST = {
    # The third level unrolls remainders: half a second more to compile, and not faster.
    "gcc": (
        *("-O2", "-ftree-vectorize", "-fvect-cost-model=dynamic"),
        *("--param", "vect-epilogues-nomask=0"),
    ),
    "clang": ("-O3",),
    "other": ("-O2",),
}
PATIENCE = 120.0
"""Seconds that a compiler may take."""


class BuildError(Exception):
    """There is no compiler, it did not do its work, or a place for that is not safe."""


Compiler: TypeAlias = "tuple[tuple[str, ...], str]"
"""A C compiler: its command, and what it prints as its version."""


def find_compiler() -> Compiler:
    """The compiler named by ``CC``, or else cc, gcc or clang; ``BuildError`` if none answers."""
    if sys.platform == "win32":
        raise BuildError("the kernels are not made for Windows")
    if sys.platform == "darwin":
        # Without its developer tools the system's cc opens a window that offers them.
        _run(("xcode-select", "-p"))
    wish = os.environ.get("CC")
    names = [wish] if wish else ["cc", "gcc", "clang"]
    for name in names:
        try:
            command = tuple(shlex.split(name))
        except ValueError as error:
            raise BuildError(f"CC={name!r} cannot be read as a command: {error}") from error
        if command and shutil.which(command[0]):
            return command, _run((*command, "--version"))
    raise BuildError(f"no C compiler ({', '.join(names)}) was found on PATH")


def family(version: str) -> str:
    """Which flags a compiler knows.

    Example:
        >>> family("Debian clang version 14.0.6")
        'clang'
    """
    first = version.lower()
    if "clang" in first:
        return "clang"
    return "gcc" if "gcc" in first or "free software foundation" in first else "other"


def flags(version: str, portable: bool) -> tuple[str, ...]:
    """The flags of a compilation, for this processor or for every one of its kind (portable).

    Portable code chooses its instructions when it runs.
    """
    place = ("-DCOLANGEVIN_PORTABLE",) if portable else ("-march=native",)
    return (*COMMON, *FAST[family(version)], *place)


def packaged(name: str) -> str:
    """The file of a library that a wheel brings along.

    Example:
        >>> packaged("kernels")
        '_kernels.so'
    """
    return f"_{name}.so"


def sources() -> list[Path]:
    """All files that the libraries are made of."""
    return sorted([*FOLDER.glob("*.c"), *FOLDER.glob("*.h")])


def build(compiler: Compiler, name: str, out: Path, portable: bool) -> None:
    """Compile one of ``LIBRARIES`` into the file ``out``."""
    # The files are found from the folder itself, so that no path gets into the library.
    command, version = compiler
    tail = (f"{name}.c", "-o", str(out.absolute()), "-lm")
    _run((*command, *flags(version, portable), *tail))


def _run(command: tuple[str, ...]) -> str:
    try:
        done = subprocess.run(
            command,
            cwd=FOLDER,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=PATIENCE,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise BuildError(f"{command[0]} could not be run: {error}") from error
    if done.returncode:
        said = " ".join((done.stderr or done.stdout).split())[-500:]
        raise BuildError(f"{command[0]} failed with exit code {done.returncode}: {said}")
    return done.stdout
