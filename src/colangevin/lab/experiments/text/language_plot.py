"""Pictures of the language model's losses, sweeps and transfer, from records alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from colangevin.lab import kit
from colangevin.lab.experiments.text import language_findings as findings

FAMILIES = {"adam": "along Adam", "polar": "along the polar factor"}
GEOMETRIES = ("free", "norm", "rows", "orthogonal", "bounded")
SHOWN = 0.6
"""Nats above the lowest loss that are shown."""


def losses(records: Sequence[kit.Record]) -> kit.Figure:
    """Validation loss of the seeds against steps and against processor time, a row a direction."""
    figure, axes = _panels(2, 2, sharey=True, sharex="col")
    for row, (direction, title) in zip(axes, FAMILIES.items(), strict=True):
        for axis, key in zip(row, ("step", "seconds"), strict=True):
            for color, style, record in _styled(records, direction):
                found = findings.courses(record)
                times = found[key] if key == "step" else found[key].mean(axis=1)
                line = {"color": color, "linestyle": style, "label": record.label}
                kit.band(axis, times, found["valid_loss"], **line)
            axis.set_title(title)
        row[0].set_ylabel("validation loss")
        _legend(row[0])
    axes[1][0].set_xlabel("step")
    axes[1][1].set_xlabel("processor time of the steps, s")
    _zoom(axes[0][0], (findings.courses(record)["valid_loss"] for record in records))
    kit.say_bands(figure)
    return figure


def sensitivity(records: Sequence[kit.Record]) -> kit.Figure:
    """Last validation loss of each lr over that of the best one, a panel a direction."""
    figure, axes = _panels(1, 2, sharey=True)
    all_losses = []
    for axis, (direction, title) in zip(axes[0], FAMILIES.items(), strict=True):
        for color, style, record in _styled(records, direction):
            lrs, found = _sweep(record, record.settings["widths"][-1])
            all_losses.append(found)
            line = {"color": color, "linestyle": style, "label": record.label}
            axis.plot(lrs / findings.best_lr(record), found, marker="o", markersize=3, **line)
        axis.set(title=title, xlabel="lr, over the best of the method")
        axis.set_xscale("log", base=2)
        _legend(axis)
    axes[0][0].set_ylabel("last validation loss, 1 run")
    _zoom(axes[0][0], all_losses)
    return figure


def transfer(records: Sequence[kit.Record]) -> kit.Figure:
    """Last validation loss against lr at each width, a panel a method; the best has a star."""
    figure, axes = _panels(1, len(records), sharey=True, width=3.0)
    for axis, record in zip(axes[0], records, strict=True):
        for color, width in zip(kit.COLORS, record.settings["widths"], strict=False):
            lrs, found = _sweep(record, width)
            axis.plot(lrs, found, marker="o", markersize=3, color=color, label=f"width {width}")
            best = int(np.nanargmin(found))
            axis.plot(lrs[best], found[best], marker="*", markersize=12, color=color)
        axis.set(title=record.label, xlabel="lr")
        axis.set_xscale("log", base=2)
        ticks = record.settings["lrs"]
        axis.set_xticks(ticks, [f"{lr:g}" for lr in ticks], rotation=45)
        axis.legend(fontsize="small")
    axes[0][0].set_ylabel("last validation loss, 1 run")
    return figure


def _panels(rows: int, columns: int, width: float = 4.6, **shared: Any) -> tuple[kit.Figure, Any]:

    figure, axes = kit.panels((width * columns, 3.6 * rows), rows, columns, squeeze=False, **shared)
    for axis in axes.flat:
        axis.grid(alpha=0.3)
    return figure, axes


def _legend(axis: Any) -> None:
    """None where no method of a direction is done."""
    if axis.get_lines():
        axis.legend(fontsize="small")


def _styled(records: Sequence[kit.Record], direction: str) -> Iterable[tuple[Any, Any, kit.Record]]:
    """Colour and dashes of each method of a direction: those of its geometry."""
    for record in records:
        if record.settings["direction"] == direction:
            place = _place(record.settings)
            yield kit.COLORS[place], kit.STYLES[place], record


def _place(settings: kit.Settings) -> int:
    """The last for a method with a geometry that no other has."""
    first, second = settings["geometry"].values()
    alone = first != second or "decay" in settings
    return len(GEOMETRIES) if alone else GEOMETRIES.index(first)


def _sweep(record: kit.Record, width: int) -> tuple[Any, Any]:
    """Learning rates in rising order, and the losses."""
    found = findings.swept(record.history, width, record.settings["steps"])
    return np.array(sorted(found)), np.array([found[lr] for lr in sorted(found)])


def _zoom(axis: Any, found: Iterable[Any]) -> None:
    """Show what lies near the lowest loss; first steps and failed lr are above."""
    lowest = min(float(np.nanmin(values)) for values in found)
    axis.set_ylim(lowest - 0.03, lowest + SHOWN)
