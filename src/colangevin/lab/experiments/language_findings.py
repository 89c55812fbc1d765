"""What the sweeps and seeds of the language model say, beside figures of others."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from colangevin.lab.experiments.experiment import Claim, Table
from colangevin.lab.experiments.records import Record, Records

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SWEEP, SEEDS, SHORTER = "sweep", "seeds", "shorter"
"""Parts of a history: the search for the lr, new seeds of the best, the same with fewer steps."""


def rows_of(
    history: Mapping[str, list[Any]], part: str, width: int, lr: float
) -> list[dict[str, Any]]:
    """The measurements of one stretch of runs.

    Example:
        >>> history = {"part": ["sweep"] * 2, "width": [8] * 2, "lr": [0.1, 0.2], "step": [5, 5]}
        >>> rows_of(history, "sweep", 8, 0.2)
        [{'part': 'sweep', 'width': 8, 'lr': 0.2, 'step': 5}]
    """
    return [
        row for row in _rows(history) if (row["part"], row["width"], row["lr"]) == (part, width, lr)
    ]


def _rows(history: Mapping[str, list[Any]]) -> list[dict[str, Any]]:
    columns = history.values()
    return [dict(zip(history, row, strict=True)) for row in zip(*columns, strict=True)]


def swept(history: Mapping[str, list[Any]], width: int, steps: int) -> dict[float, float]:
    """Last validation loss by lr, of those that were tried at a width to the end."""
    return {
        row["lr"]: math.nan if row["valid_loss"][0] is None else row["valid_loss"][0]
        for row in _rows(history)
        if (row["part"], row["width"], row["step"]) == (SWEEP, width, steps)
    }


def best(losses: Mapping[float, float]) -> float:
    """The lr of the lowest loss; one that diverged is the last choice.

    Example:
        >>> best({0.1: 2.0, 0.2: math.nan})
        0.1
    """
    return min(losses, key=lambda lr: math.inf if math.isnan(losses[lr]) else losses[lr])


def is_there(history: Mapping[str, list[Any]], part: str, steps: int) -> bool:
    """Whether a part has its last step."""
    return any((row["part"], row["step"]) == (part, steps) for row in _rows(history))


def outcome(record: Record) -> dict[str, Any]:
    """Best lr by width; losses and seconds of the seeds after their last step."""
    settings, rows = record.settings, _rows(record.history)
    sweeps = {
        width: swept(record.history, width, settings["steps"]) for width in settings["widths"]
    }
    found: dict[str, Any] = {"best_lr": {width: best(own) for width, own in sweeps.items()}}
    for part, prefix in ((SEEDS, ""), (SHORTER, f"{SHORTER}_")):
        for row in [row for row in rows if row["part"] == part][-1:]:
            for key in ("valid_loss", "train_loss", "seconds"):
                found[prefix + key] = row[key]
    return found


def figures(records: Records) -> dict[str, Figure]:
    return {}


def table(records: Records) -> Table:
    return Table(["method"], [])


def claims(records: Records) -> list[Claim]:
    return []
