"""Empty CUDA libraries, so that a torch from PyPI can be imported without the real ones.

Torch's wheels for Linux on PyPI are linked with a dozen libraries of CUDA, large packages that a
CPU has no use for. This writes libraries of the same names beside torch's own, in which every
function only returns "there is no device". Needs gcc, nm and readelf (Debian: gcc, binutils).

    python scripts/cuda_stubs.py      # for the torch of this Python
"""

from __future__ import annotations

import importlib.util
import re
import subprocess
import tempfile
from collections import defaultdict
from pathlib import Path

NO_DEVICE = 100
"""cudaErrorNoDevice; the other libraries call any number but 0 a failure."""
LIBRARY = re.compile(r"lib(cu|nccl|nvrtc|nvshmem|nvJitLink|nvToolsExt)\S*\.so\S*")
FUNCTION = re.compile(r"(__cuda|cu|nccl|nvrtc|nvshmem)\w+")


def main() -> None:
    """Write the libraries that torch's need and that are not there."""
    folder = torch_libraries()
    linked = sorted(folder.glob("*.so"))
    if not linked:  # macOS, Windows: torch is built without CUDA or brings it along
        return
    versions = dict.fromkeys(missing(linked), "")
    versions |= {k: v for k, v in version_names(linked).items() if k in versions}
    functions = functions_by_version(linked)
    for library, version in versions.items():
        # A function without a version may be in any library: all of them have it.
        write_stub(folder / library, version, functions[version] | functions[""])
    print(f"{len(versions)} stubs in {folder}: {' '.join(sorted(versions))}")


def torch_libraries() -> Path:
    """The folder of torch's own libraries, found without importing torch."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        raise SystemExit("torch is not installed in this Python")
    return Path(spec.origin).parent / "lib"


def missing(linked: list[Path]) -> set[str]:
    """The CUDA libraries that these are linked with, less those that lie beside them."""
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", _output("readelf", "--dynamic", *linked))
    return {n for n in needed if LIBRARY.fullmatch(n) and not (linked[0].parent / n).exists()}


def version_names(linked: list[Path]) -> dict[str, str]:
    """The name of its version that each library must define, such as ``libcudart.so.12``."""
    text = _output("readelf", "--version-info", "--wide", *linked)
    return dict(re.findall(r"File: (\S+)\s+Cnt: \d+\n.*?Name: (\S+)", text))


def functions_by_version(linked: list[Path]) -> defaultdict[str, set[str]]:
    """The functions of CUDA that are called, by the name of their version or ``""``."""
    functions = defaultdict[str, set[str]](set)
    for line in _output("nm", "--dynamic", "--undefined-only", *linked).splitlines():
        name, _, version = line.split(" ")[-1].partition("@")
        if FUNCTION.fullmatch(name):
            functions[version].add(name)
    return functions


def write_stub(path: Path, version: str, functions: set[str]) -> None:
    """Compile one library."""
    code = "".join(f"int {name}(void) {{ return {NO_DEVICE}; }}\n" for name in sorted(functions))
    with tempfile.TemporaryDirectory() as folder:
        source, script = Path(folder, "stub.c"), Path(folder, "stub.map")
        source.write_text(code)
        script.write_text(f"{version} {{ global: *; }};\n")
        names = [f"-Wl,-soname,{path.name}", f"-Wl,--version-script={script}"]
        _output("gcc", "-shared", "-fPIC", *names, source, "-o", path)


def _output(*command: str | Path) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    main()
