"""A folder is written by one sampling at a time."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

NAME = "sampling.lock"


class Lock:
    """Holds a folder until it is released, or the process ends, however it ends.

    The operating system keeps the lock, not the file: a file that a killed process left is free.
    Where a file system has no locks, nothing is held.

    Args:
        folder: which exists.

    Raises:
        ValueError: if another sampling holds it, with its process.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     first = Lock(Path(folder))
        ...     first.release()
        ...     Lock(Path(folder)).release()
    """

    def __init__(self, folder: Path) -> None:
        file = folder / NAME
        self._descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            _lock(self._descriptor)
        except BlockingIOError:
            owner = os.read(self._descriptor, 20).decode(errors="replace").strip() or "unknown"
            self.release()
            raise ValueError(
                f"{folder} is being written by another sampling (process {owner}): wait for it, "
                "or take another path"
            ) from None
        except OSError:  # no locks here
            return
        os.ftruncate(self._descriptor, 0)
        os.write(self._descriptor, f"{os.getpid()}\n".encode())

    def release(self) -> None:
        """Let others write; once is enough."""
        if self._descriptor >= 0:
            _unlock(self._descriptor)
            os.close(self._descriptor)
        self._descriptor = -1


def _lock(descriptor: int) -> None:
    """Lock a file without waiting.

    Raises:
        BlockingIOError: if another holds it.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        _lock_on_windows(descriptor)
        return
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _unlock(descriptor: int) -> None:
    """Closing is not enough while a forked process, such as a loader's worker, has the file."""
    try:
        import fcntl
    except ImportError:  # Windows
        return
    with contextlib.suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_UN)


def _lock_on_windows(descriptor: int) -> None:
    import msvcrt

    windows: Any = msvcrt
    os.lseek(descriptor, 1 << 20, os.SEEK_SET)  # far from the number, which others read
    try:
        windows.locking(descriptor, windows.LK_NBLCK, 1)
    except OSError:
        raise BlockingIOError from None
    finally:
        os.lseek(descriptor, 0, os.SEEK_SET)
