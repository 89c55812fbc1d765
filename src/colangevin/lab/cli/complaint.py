"""Errors of the command line: one line on the standard error output."""

from __future__ import annotations

from rich.console import Console

BAD_ARGUMENT = 2
INTERRUPTED = 130


def complain(command: str, error: Exception) -> None:
    """Print what is wrong, in one line."""
    text = " ".join(str(error).split())
    Console(stderr=True).print(
        f"cola {command}: {text}", soft_wrap=True, markup=False, highlight=False
    )
