"""Find the compiled kernels, or compile them at their first use.

A library that came with the wheel is taken as it is. Otherwise the sources are compiled for
this processor, tried in a process of their own, and kept in the user's cache. Nothing here
raises: where there is no library, ``load`` returns None and ``reason`` returns why.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import torch

from colangevin.native import building, cache
from colangevin.native.building import BuildError

FUNCTIONS = {
    "kernels": {"cola_step": 11, "cola_normals": 4, "cola_turn": 7},
    "stiefel": {"cola_stiefel": 8},
}
"""The functions of each library, and how many integers or addresses they take."""
TRIALS = {
    "kernels": """
import array, ctypes, math, sys
library = ctypes.CDLL(sys.argv[1])
library.cola_step.argtypes = [ctypes.c_int64] * 11
library.cola_normals.argtypes = [ctypes.c_int64] * 4
for dtype, code in enumerate("fd"):
    start = (0.5, 0.0, math.pi / 6, 1.0, 0.0, 0.0)
    x, v, y, g, m, s = (array.array(code, [value] * 40) for value in start)
    at = [a.buffer_info()[0] for a in (x, v, y, g, m, s)]
    seed = array.array("q", [1])
    segment = [*at[:4], 0, 40, 0, seed.buffer_info()[0], 2, 3, 0, 0, 1, 0, 0, 0, *at[4:]]
    kinds = array.array("q", [1, 2, 3])
    numbers = array.array("d", [0.0, 1.0, 0.0, 0.9, 1.0, 0.1, -0.1, 0, 0, 0.1, 0.1, 0])
    factors = array.array("d", [0.9, 0.99, 1e-8, 10.0, 10.0])
    tables = array.array("q", segment), kinds, numbers, factors
    segment, kinds, numbers, factors = (a.buffer_info()[0] for a in tables)
    library.cola_step(dtype, 1, 1, segment, 3, kinds, numbers, 12, 1, factors, 1)
    assert all(abs(a - math.sin(b)) < 1e-6 for a, b in zip(x, y)) and m[39] > 0 < s[39]
    tables[0][2] = 0
    tables[0][14] = 8
    library.cola_step(dtype, 2, 1, segment, 3, kinds, numbers, 12, 2, factors, 1)
    assert all(abs(sum(a * a for a in x[i : i + 8]) - 1) < 1e-5 for i in range(0, 40, 8))
    job = array.array("q", [at[0], 40, 0, 1, 2, 3, 0])
    library.cola_normals(dtype, 1, job.buffer_info()[0], 1)
    assert len(set(x)) == 40 and all(abs(a) < 7 for a in x)
""",
    "stiefel": """
import array, ctypes, sys
library = ctypes.CDLL(sys.argv[1])
library.cola_stiefel.argtypes = [ctypes.c_int64] * 8
for dtype, code in enumerate("fd"):
    x, v, g = (array.array(code, values) for values in ([0.6, 0.8, 0.0], [0] * 3, [1, 2, 3]))
    result = array.array("q", [0, 0])
    at = [a.buffer_info()[0] for a in (x, v, g, result)]
    stack = array.array("q", [*at, 1, 3, 1, 0, 1, 2, 3, 0, 0])
    kinds = array.array("q", [1, 2, 3])
    numbers = array.array("d", [0, 1, 1e-6, 40, 0.9, 1, 0.1, -0.1, 0, 0, 0.01, 0.01, 0])
    rest = [a.buffer_info()[0] for a in (stack, kinds, numbers)]
    library.cola_stiefel(dtype, 1, rest[0], 3, rest[1], rest[2], 13, 1)
    assert result[1] == 0 and abs(sum(a * a for a in x) - 1) < 1e-5
""",
}
"""A tiny step of each dtype: a wrong instruction ends this process and not that of the user."""
PATIENCE = 60.0


Found: TypeAlias = "tuple[ctypes.CDLL | None, str | None]"
"""A library, or the reason why there is none."""

_lock = threading.Lock()
_found: dict[str, Found] = {}


def load(name: str = "kernels") -> ctypes.CDLL | None:
    """A library, or None where there is none; ``COLANGEVIN_NATIVE=0`` turns all off.

    ``"kernels"`` is for elementwise steps and normals, ``"stiefel"`` for matrices.
    """
    return _find(name)[0]


def reason(name: str = "kernels") -> str | None:
    """Why there is no such library; None if there is.

    Example:
        >>> (load() is None) == (reason() is not None)
        True
    """
    return _find(name)[1]


def _find(name: str) -> Found:
    if os.environ.get("COLANGEVIN_NATIVE") == "0":
        return None, "kernels are turned off by COLANGEVIN_NATIVE=0"
    if name not in _found:
        with _lock:
            if name not in _found:
                _found[name] = _look(name)
    return _found[name]


def _look(name: str) -> Found:
    complaints = []
    # A private folder serves where the cache is not safe, or no place for programs.
    for place in (_packaged, _cached, _private):
        try:
            library = place(name)
            _prepare(library, name)
        except (BuildError, OSError, AttributeError) as error:
            complaints.append(f"{error}")
        else:
            return library, None
    return None, "; ".join(dict.fromkeys(complaints))


def _packaged(name: str) -> ctypes.CDLL:
    path = building.FOLDER / building.packaged(name)
    if not path.exists():
        raise BuildError("the package was installed without compiled kernels")
    return ctypes.CDLL(str(path))


def _cached(name: str) -> ctypes.CDLL:
    compiler = building.find_compiler()
    folder, beginning = cache.folder(), cache.stem(compiler, name)
    path = cache.find(folder, beginning)
    if path is not None:
        try:
            return ctypes.CDLL(str(path))
        except OSError:
            path.unlink(missing_ok=True)
    # Several processes may compile at once: each has its own file, and only a good one is kept.
    handle, temporary = tempfile.mkstemp(suffix=".so", prefix="new-", dir=folder)
    os.close(handle)
    new = Path(temporary)
    try:
        building.build(compiler, name, new, portable=False)
        _try(new, name)
        return ctypes.CDLL(str(cache.keep(new, folder, beginning)))
    finally:
        new.unlink(missing_ok=True)


def _private(name: str) -> ctypes.CDLL:
    """Compiled for this process alone: a library that is loaded needs its file no more."""
    compiler = building.find_compiler()
    folder = Path(tempfile.mkdtemp(prefix="colangevin-"))
    try:
        path = folder / f"{name}.so"
        building.build(compiler, name, path, portable=False)
        _try(path, name)
        return ctypes.CDLL(str(path))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _try(path: Path, name: str) -> None:
    """Try a compiled library in a process of its own."""
    if not sys.executable or getattr(sys, "frozen", False):
        raise BuildError("there is no Python to try the compiled kernels with")
    command = [sys.executable, "-I", "-S", "-c", TRIALS[name], str(path)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=PATIENCE
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise BuildError(f"the compiled kernels could not be tried: {error}") from error
    if done.returncode:
        said = " ".join(done.stderr.split())[-300:]
        raise BuildError(f"the compiled kernels failed (exit code {done.returncode}): {said}")


# --- the functions, and the threads of torch --------------------------------------------------


def _prepare(library: ctypes.CDLL, name: str) -> None:
    for function_name, count in {"cola_threads": 3, **FUNCTIONS[name]}.items():
        function = getattr(library, function_name)
        function.argtypes = [ctypes.c_int64] * count
        function.restype = None
    functions = _threads_of_torch()
    if functions is None:
        return
    library.cola_threads(*functions)
    # The threads do not live on in a forked process: waiting for them would never end.
    if hasattr(os, "register_at_fork"):
        alone: Callable[[], None] = lambda: library.cola_threads(0, 0, 0)  # noqa: E731
        os.register_at_fork(after_in_child=alone)


def _threads_of_torch() -> tuple[int, int, int] | None:
    """The addresses of the OpenMP functions that torch itself calls; None for one thread.

    A second copy of the OpenMP library would have threads of its own. Each of the two pools
    then spins while the other works, and a step takes ten times as long.
    """
    if not torch.backends.openmp.is_available():
        return None
    folder = Path(torch.__file__).parent / "lib"
    for path in sorted(folder.glob("libtorch_cpu.*")):
        try:
            library = ctypes.CDLL(str(path))  # searched along with all that it depends on
            names = ("GOMP_parallel", "omp_get_thread_num", "omp_get_num_threads")
            found = [ctypes.cast(getattr(library, name), ctypes.c_void_p).value for name in names]
        except (OSError, AttributeError):
            continue
        if all(found):
            return (found[0] or 0, found[1] or 0, found[2] or 0)
    return None
