"""Small regression tables of the UCI repository: airfoil, concrete, energy and yacht."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from colangevin.errors import DataError
from colangevin.lab.data import files

UCI_TABLES = {"airfoil": (1503, 6), "concrete": (1030, 9), "energy": (768, 9), "yacht": (308, 7)}
"""Rows and columns of the tables; the last column is the target."""


class Table(NamedTuple):
    """A table of numbers.

    Attributes:
        inputs: ``float64`` [rows, columns - 1].
        targets: ``float64`` [rows].
    """

    inputs: Tensor
    targets: Tensor


def uci(
    name: str,
    directory: str | os.PathLike[str] | None = None,
    *,
    verify: bool = True,
    download: bool = True,
) -> Table:
    r"""A regression table: noise of airfoils, strength of concrete, heat of houses, drag of yachts.

    The name is ``airfoil``, ``concrete``, ``energy`` or ``yacht``; the other arguments are those of
    :func:`files.locate`, the folder is ``uci``.

    Raises:
        ValueError: for another name.
        DataError: a file is missing, empty or damaged.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as data:  # two rows take the place of 308
        ...     pathlib.Path(data, "uci").mkdir()
        ...     _ = pathlib.Path(data, "uci", "yacht.data").write_text("1 2 3 4 5 6 7\n" * 2)
        ...     table = uci("yacht", data, verify=False)
        >>> table.inputs.shape, table.targets
        (torch.Size([2, 6]), tensor([7., 7.], dtype=torch.float64))
    """
    if name not in UCI_TABLES:
        raise ValueError(f"name must be one of {', '.join(UCI_TABLES)}, got {name!r}")
    path = files.locate("uci", f"{name}.data", directory, verify=verify, download=download)
    numbers = _read(path, UCI_TABLES[name][1])
    return Table(numbers[:, :-1].contiguous(), numbers[:, -1].contiguous())


def _read(path: Path, columns: int) -> Tensor:
    """Rows of numbers, separated by blanks.

    Raises:
        DataError: naming the line that is wrong.
    """
    rows = []
    text = files.read(path).decode("utf-8", errors="replace")
    for number, line in enumerate(text.splitlines(), start=1):
        cells = line.split()
        if not cells:
            continue
        try:
            row = [float(cell) for cell in cells]
        except ValueError:
            raise DataError(f"{path}, line {number}: expected numbers, got {line[:60]!r}") from None
        if len(row) != columns or not all(map(math.isfinite, row)):
            raise DataError(
                f"{path}, line {number}: expected {columns} finite numbers, got {line[:60]!r}"
            )
        rows.append(row)
    if not rows:
        raise DataError(f"{path} has no rows")
    return torch.tensor(rows, dtype=torch.float64)
