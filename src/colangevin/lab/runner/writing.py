"""Files that are whole at any time, also after the process was killed in the middle."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

PARTIAL = ".part"


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """Open a file that takes the place of ``path`` once all of it is on the disk.

    Raises:
        OSError: if the place cannot be written; it names the path.
    """
    partial = path.with_name(f".{path.name}.{os.getpid()}{PARTIAL}")
    try:
        with partial.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError as error:
        raise OSError(f"cannot write to {path}: {error.strerror or error}") from None
    finally:
        partial.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a file whole or not at all, whatever happens on the way.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_text(Path(folder, "a.txt"), "whole")
        ...     [path.name for path in Path(folder).iterdir()]
        ['a.txt']
    """
    with replacing(path) as file:
        file.write(text.encode())


def require_writable(directory: Path) -> None:
    """Make a directory, or fail before the work and not after it.

    Raises:
        OSError: naming the directory.

    Example:
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     require_writable(Path(folder, "a", "b"))
        ...     Path(folder, "a", "b").is_dir()
        True
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            pass
    except OSError as error:
        raise OSError(f"cannot write to {directory}: {error.strerror or error}") from None


def sweep(directory: Path) -> None:
    """Delete what killed processes left half written; none may be at work in the directory.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     Path(folder, ".a.json.123.part").touch()
        ...     sweep(Path(folder))
        ...     list(Path(folder).iterdir())
        []
    """
    for path in directory.glob(f".*{PARTIAL}"):
        path.unlink(missing_ok=True)
