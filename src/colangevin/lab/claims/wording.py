"""Words, times and tables as text, the same on the terminal, in Markdown and in HTML."""

from __future__ import annotations

import re
from collections.abc import Iterable


def markdown_table(columns: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    r"""Write a table in Markdown.

    Example:
        >>> print(markdown_table(["a", "b"], [["1 < 2", "|x|"]]), end="")
        | a | b |
        | --- | --- |
        | 1 < 2 | \|x\| |
    """
    head = list(columns)
    lines = [head, ["---"] * len(head), *rows]
    cells = [[_cell(text) for text in line] for line in lines]
    return "".join(f"| {' | '.join(line)} |\n" for line in cells)


def _cell(text: str) -> str:
    """One line, without what Markdown takes for the edge of a cell or for a tag."""
    return re.sub(r"<(?=[a-zA-Z/!])", "&lt;", " ".join(text.split()).replace("|", r"\|"))


def duration(seconds: float) -> str:
    """Say how long something took, in two units at most.

    Example:
        >>> [duration(seconds) for seconds in (3.24, 59.96, 61, 3599.9, 7265)]
        ['3.2 s', '1 min 0 s', '1 min 1 s', '1 h 0 min', '2 h 1 min']
    """
    if round(seconds, 1) < 60:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def capital(text: str) -> str:
    """Begin with a capital letter, and leave the rest.

    Example:
        >>> capital("figures 1 and 2 (CoLA)")
        'Figures 1 and 2 (CoLA)'
    """
    return text[:1].upper() + text[1:]


def sentence(text: str) -> str:
    """Begin with a capital letter and end with a full stop.

    Example:
        >>> sentence("fewer epochs"), sentence("")
        ('Fewer epochs.', '')
    """
    return capital(text) + ("" if not text or text.endswith((".", "!", "?")) else ".")
