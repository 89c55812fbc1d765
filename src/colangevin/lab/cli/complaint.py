"""Errors of the command line: one line on the standard error output."""

from __future__ import annotations

from rich.console import Console

BAD_ARGUMENT = 2
INTERRUPTED = 130


def say_ended(command: str) -> None:
    """Say that a second Ctrl-C has ended the program."""
    Console(stderr=True).print(f"cola {command}: ended at once", highlight=False)


def complain(command: str, error: Exception) -> None:
    """Print what is wrong, in one line."""
    text = " ".join(str(error).split())
    Console(stderr=True).print(
        f"cola {command}: {text}", soft_wrap=True, markup=False, highlight=False
    )
