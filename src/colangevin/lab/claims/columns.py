"""Columns of default tables: what a row of a job shows beside its quantities."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from colangevin.lab.claims.comparing import Quantity
from colangevin.lab.runner.experiment import Table
from colangevin.lab.runner.records import Record, Records


@dataclass(frozen=True)
class Column:
    """A column of a table, such as a setting; a quantity is a column, too.

    Attributes:
        label: its head.
        read: the setting that it shows, or a function from the record to the cell.

    Example:
        >>> record = Record("a", "b", 0, {"label": "SGD", "tau": 1e-6}, final={"removed": [3]})
        >>> METHOD.text(record), Column("τ", "tau").text(record), Column("x", "radius").text(record)
        ('SGD', '1e-06', '–')
        >>> Column("diverged", lambda own: str(len(own.final["removed"]))).text(record)
        '1'
    """

    label: str
    read: str | Callable[[Record], str]

    def text(self, record: Record) -> str:
        """The cell of a record."""
        if callable(self.read):
            return self.read(record)
        value = record.settings.get(self.read)
        if value is None:
            return NONE
        return f"{value:g}" if isinstance(value, float) else str(value)


NONE = "–"
METHOD = Column("method", "label")


def _held(record: Record) -> str:
    return f"{max(record.values('violation')):.0e}" if any(record.values("violation")) else NONE


VIOLATION = Column("violation", _held)
"""The largest violation of a constraint in any run; a dash where there is none."""


@dataclass(frozen=True)
class Pivot:
    """A table of one quantity: a row for each value of one setting, a column for each of another.

    Attributes:
        quantity: what is in the cells.
        rows: a setting, and the head of its column.
        columns: a setting.

    Example:
        >>> settings = ({"label": k, "depth": d} for d in (1, 2) for k in ("SGD", "Adam"))
        >>> records = Records(
        ...     Record("a", f"job-{n}", n, own, final={"x": [float(n)]})
        ...     for n, own in enumerate(settings)
        ... )
        >>> Pivot(Quantity("x", "x", digits=0), ("depth", "layers"))(records)
        Table(columns=['layers', 'SGD', 'Adam'], rows=[['1', '0 (1 run)', '1 (1 run)'], \
['2', '2 (1 run)', '3 (1 run)']])
    """

    quantity: Quantity
    rows: tuple[str, str]
    columns: str = "label"

    def __call__(self, records: Records) -> Table:
        """The table; a cell without a record has a dash."""
        row, column = Column(self.rows[1], self.rows[0]), Column("", self.columns)
        cells = {(row.text(one), column.text(one)): one for one in records.values()}
        heads = list(dict.fromkeys(name for _, name in cells))
        lines = [
            [name, *(self._cell(cells.get((name, head))) for head in heads)]
            for name in dict.fromkeys(name for name, _ in cells)
        ]
        return Table([row.label, *heads], lines)

    def _cell(self, record: Record | None) -> str:
        return self.quantity.text(record) if record else NONE
