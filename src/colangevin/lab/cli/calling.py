"""How to call the program again: as it was called, if the shell does not know it as cola."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path

NAME = "cola"


def program() -> str:
    """What to type before a command: ``cola``, or the way to it from here.

    Example:
        >>> program()
        'cola'
    """
    called = Path(sys.argv[0])
    if called.parts[-2:] == ("colangevin", "__main__.py"):
        return f"{_words(Path(sys.executable))} -m colangevin"
    return _words(called) if called.stem == NAME else NAME


def _words(path: Path) -> str:
    """The name alone if the shell finds this file by it, else the shortest way to it."""
    found = shutil.which(path.name)
    if found is not None and _place(Path(found)) == _place(path):
        return path.name
    here = os.path.relpath(path) if path.is_absolute() else str(path)
    return shlex.quote(str(path) if here.startswith(os.pardir) else here)


def _place(path: Path) -> str:
    """Links are not followed: a venv's Python is one."""
    return os.path.abspath(path)
