"""Tables of results that fit a terminal of 80 columns where they can."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence

from rich import box
from rich.table import Table

NUMBERS = ("", "–", "-", "+", *"0123456789")
RUNS = re.compile(r" \((\d+ runs?)\)$")


def without_runs(rows: Sequence[Sequence[str]]) -> tuple[list[list[str]], str]:
    """Take the number of runs out of the cells if it is the same everywhere.

    Returns:
        The rows, and the number of runs, or nothing if it differs between cells.

    Example:
        >>> without_runs([["SGD", "92.0 ± 2.8 (10 runs)"], ["CoLA", "95.1 ± 0.3 (10 runs)"]])
        ([['SGD', '92.0 ± 2.8'], ['CoLA', '95.1 ± 0.3']], '10 runs')
        >>> without_runs([["SGD", "92.0 ± 2.8 (10 runs)"], ["CoLA", "95.1 (1 run, 9 diverged)"]])[1]
        ''
    """
    counted = [cell for row in rows for cell in row if " run" in cell]
    found = {match[1] if (match := RUNS.search(cell)) else cell for cell in counted}
    if len(found) != 1 or not all(RUNS.search(cell) for cell in counted):
        return [list(row) for row in rows], ""
    return [[RUNS.sub("", cell) for cell in row] for row in rows], found.pop()


def terminal_table(columns: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> Table:
    """A table for a terminal: narrow, with lines that break between words only.

    Args:
        columns: the headings.
        rows: the cells, in mean ± deviation (runs) form where they are results.
        width: of the terminal. Where the table is wider and has few rows, it is turned: then
            every row is a column.
    """
    rows, runs = without_runs(rows)
    shown = [[cell.replace(" ± ", "±") for cell in row] for row in rows]
    if width < _room(columns, shown, 1) and len(shown) < len(columns):
        columns, *shown = [list(line) for line in zip(columns, *shown, strict=True)]
    several = runs not in ("", "1 run")
    table = Table(
        box=box.SIMPLE_HEAD,
        padding=(0, 1 if _room(columns, shown, 2) <= width else 0, 0, 0),
        show_edge=False,
        caption=f"mean±standard deviation over {runs}" if several else None,
        caption_justify="left",
    )
    for index, (column, longest) in enumerate(zip(columns, _widths(columns, shown), strict=True)):
        right = index > 0 and all(row[index][:1] in NUMBERS for row in shown)
        # Left to itself, the table would give a long heading the room that numbers need.
        heading = textwrap.fill(column, longest, break_long_words=False)
        table.add_column(heading, justify="right" if right else "left", overflow="fold")
    for row in shown:
        table.add_row(*row)
    return table


def _widths(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[int]:
    """Of each column, the longest cell, or the longest word of the heading."""
    return [
        max(map(len, [*(row[index] for row in rows), *column.split()]), default=1)
        for index, column in enumerate(columns)
    ]


def _room(columns: Sequence[str], rows: Sequence[Sequence[str]], gap: int) -> int:
    return sum(_widths(columns, rows)) + gap * len(columns)
