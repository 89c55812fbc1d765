"""``cola doctor``: what the program finds on this machine, and what is missing; for bug reports."""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import torch
from rich.console import Console

import colangevin
from colangevin.errors import DataError
from colangevin.lab import machine
from colangevin.lab.data import files
from colangevin.lab.data.sources import SOURCES
from colangevin.native import building, cache, library

PACKAGES = {
    "rich": "cli",
    "matplotlib": "plots",
    "contourpy": "plots",
    "pooch": "data",
    "tqdm": "data",
    "geoopt": "bench",
    "pytest": "dev",
}
"""Optional packages, and the extra that brings each."""
KERNELS = {"kernels": "elementwise steps and noise", "stiefel": "small orthogonal matrices"}
VARIABLES = (
    "COLA_DATA",
    "COLANGEVIN_NATIVE",
    "COLANGEVIN_CACHE",
    "CC",
    "OMP_NUM_THREADS",
    "CUDA_VISIBLE_DEVICES",
)


class Finding(NamedTuple):
    """One line of the report; ``remedy`` says what to do about something that is missing."""

    name: str
    text: str
    remedy: str = ""


def run_doctor() -> int:
    """Print what was found, then what is missing and what to do about it."""
    console = Console()
    missing = []
    for title, findings in _sections():
        console.print(title, style="bold", highlight=False)
        for finding in findings:
            _say(console, f"  {finding.name}: {finding.text}")
            missing += [finding] if finding.remedy else []
    console.print("Missing" if missing else "Nothing is missing.", style="bold", highlight=False)
    for finding in missing:
        _say(console, f"  {finding.name}: {finding.remedy}")
    return 0


def _say(console: Console, text: str) -> None:
    console.print(text, soft_wrap=True, markup=False, highlight=False)


def _sections() -> Iterator[tuple[str, list[Finding]]]:
    yield "Versions", [*_versions()]
    yield "Machine", [*_machine()]
    yield "Compiled steps", [*_compiled()]
    yield "Caches", [*_caches()]
    yield "Data", [*_data()]


def _versions() -> Iterator[Finding]:
    place = Path(colangevin.__file__).parent
    yield Finding("colangevin", f"{colangevin.__version__} in {place}")
    yield Finding("Python", f"{platform.python_version()} ({sys.executable})")
    yield Finding("torch", torch.__version__)
    for package, extra in PACKAGES.items():
        version = machine.version(package)
        there = importlib.util.find_spec(package) is not None
        remedy = "" if there else f'pip install "colangevin[{extra}]"'
        yield Finding(package, version if there else "not installed", remedy)


def _machine() -> Iterator[Finding]:
    yield Finding("system", platform.platform())
    yield Finding("processor", f"{machine.cpu_name()}, {os.cpu_count()} cores")
    yield Finding("instructions", torch.backends.cpu.get_cpu_capability())
    yield Finding("threads of torch", str(torch.get_num_threads()))
    yield Finding("load", str(machine.load_average()))
    devices = ["cpu"]
    devices += [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    devices += ["mps"] if torch.backends.mps.is_available() else []
    yield Finding("devices", ", ".join(devices))
    named = [f"{name}={os.environ[name]}" for name in VARIABLES if name in os.environ]
    yield Finding("environment", ", ".join(named) or "none of ours is set")


def _compiled() -> Iterator[Finding]:
    try:
        command, version = building.find_compiler()
        yield Finding("C compiler", f"{' '.join(command)} ({version.splitlines()[0]})")
    except building.BuildError as error:
        yield Finding("C compiler", f"none: {error}", "install gcc or clang, for fast steps")
    for name, what in KERNELS.items():
        reason = library.reason(name)
        state = "loaded" if reason is None else "not loaded"
        remedy = "" if reason is None else f"{what} run in torch, which is slower: {reason}"
        yield Finding(f"library {name}", f"{what}, {state}", remedy)
    found = os.environ.get("CXX") or next(filter(shutil.which, ("c++", "g++", "clang++")), "")
    remedy = "" if found else "install g++ or clang++: torch.compile and Ensemble use it"
    yield Finding("C++ compiler (torch.compile)", found or "none", remedy)


def _caches() -> Iterator[Finding]:
    try:
        yield Finding("compiled libraries", _size(cache.folder()))
    except building.BuildError as error:
        yield Finding("compiled libraries", "no folder", str(error))
    folder = files.cache_folder()
    text = "needs pooch" if folder is None else _size(folder)
    yield Finding("downloaded data", text)


def _size(folder: Path) -> str:
    total = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    return f"{folder} ({total / 1e6:.1f} MB)"


def _data() -> Iterator[Finding]:
    """No remedy where files are not found: only some experiments read them."""
    try:
        looked = files.places()
    except DataError as error:
        yield Finding(files.ENVIRONMENT, "wrong", f"{error}: set it to your data directory")
        return
    yield Finding("looked in", f"{looked}; {files.ENVIRONMENT} names a data directory of yours")
    for dataset, source in SOURCES.items():
        count = sum(files.is_there(dataset, name) for name in source.md5)
        text = "found" if count == len(source.md5) else f"{count} of {len(source.md5)} files"
        yield Finding(dataset, text if count else "not found")
