"""A folder for compiled files that nobody but its user can write to.

Anyone who can write there can run code in the user's name.
"""

from __future__ import annotations

import hashlib
import os
import platform
import stat
from pathlib import Path

from colangevin.native.building import BuildError, Compiler, flags, sources


def folder() -> Path:
    """The user's folder, made if there is none.

    It is ``COLANGEVIN_CACHE``, or ``colangevin`` below ``XDG_CACHE_HOME`` or ``~/.cache``.
    """
    wish = os.environ.get("COLANGEVIN_CACHE")
    try:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        path = Path(wish) if wish else base / "colangevin"
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        check_owned(path)
        if not os.access(path, os.W_OK | os.X_OK):
            raise BuildError(f"no permission to write to {path}")
    except (OSError, RuntimeError) as error:  # also a user without a home
        raise BuildError(f"no folder for compiled files: {error}") from error
    return path


def check_owned(path: Path) -> None:
    """Refuse what others own or may write to."""
    found = path.stat()
    if found.st_uid != os.getuid():
        raise BuildError(f"{path} belongs to another user")
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise BuildError(f"{path} may be written to by others")


def stem(compiler: Compiler, name: str) -> str:
    """The beginning of a library's file name, which changes with all that it depends on."""
    command, version = compiler
    parts = [platform.platform(), _processor(), version, *command]
    parts += flags(version, portable=False)
    digest = hashlib.sha256("\n".join(parts).encode())
    for path in sources():
        digest.update(path.read_bytes())
    return f"{name}-{digest.hexdigest()[:32]}"


def find(place: Path, beginning: str) -> Path | None:
    """The whole library of that beginning; files that are not what their name says are removed.

    The name ends with a checksum. To load a file that was cut, by a power failure or a full disk,
    would end the process.
    """
    for path in sorted(place.glob(f"{beginning}-*.so")):
        check_owned(path)
        if path.name == _sealed_name(path, beginning):
            return path
        path.unlink(missing_ok=True)
    return None


def keep(new: Path, place: Path, beginning: str) -> Path:
    """Move a library into the cache, under a name with its checksum, when it is on the disk."""
    new.chmod(0o700)
    with open(new, "rb") as file:
        os.fsync(file.fileno())
    path = place / _sealed_name(new, beginning)
    os.replace(new, path)
    return path


def _sealed_name(path: Path, beginning: str) -> str:
    return f"{beginning}-{hashlib.sha256(path.read_bytes()).hexdigest()[:32]}.so"


def _processor() -> str:
    """What the processor can do, where the system tells."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:
            for line in lines:
                if line.startswith(("flags", "Features")):
                    return line
    except OSError:
        pass
    return platform.processor()
