"""Pictures of chapter 3: curves over steps, bars, and decision regions in a row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from colangevin.lab import kit

LABELS = {"test_loss": "test loss", "test_accuracy": "test accuracy, %", "train_loss": "train loss"}


def draw_curves(
    rows: Mapping[str, Sequence[kit.Record]], keys: Sequence[str] = ("test_loss", "test_accuracy")
) -> kit.Figure:
    """Curves over steps: a row of panels for each group of records, by title.

    Example:
        >>> history = {"step": [0, 50], "test_loss": [[1.0, 1.2], [0.5, 0.7]]}
        >>> record = kit.Record("a", "sgd", 0, {"label": "SGD"}, history=history)
        >>> len(draw_curves({"spiral": [record]}, ["test_loss"]).axes)
        1
    """
    figure, axes = kit.panels(
        (5.2 * len(keys), 3.8 * len(rows)), len(rows), len(keys), squeeze=False
    )
    for line, (title, records) in zip(axes, rows.items(), strict=True):
        for axis, key in zip(line, keys, strict=True):
            if key.endswith("loss"):
                axis.set_yscale("log")
            for index, record in enumerate(records):
                values = kit.factor_of(key) * np.array(record.series(key))
                style = {
                    "color": kit.COLORS[index % len(kit.COLORS)],
                    "label": record.label,
                }
                dash = kit.STYLES[index % len(kit.STYLES)]
                kit.band(axis, record.history["step"], values, linestyle=dash, **style)
            axis.set(xlabel="step", ylabel=LABELS.get(key, key), title=title)
            axis.grid(alpha=0.3)
            axis.legend(fontsize="small")
    kit.say_bands(figure)
    return figure


def bars(axis: Any, names: Sequence[str], values: Sequence[Any], label: str) -> None:
    """Bars with two standard errors, one per method; values are one number per run."""
    found = [kit.mean_error(np.array([list(each)])) for each in values]
    heights = [float(mean[0]) for mean, _ in found]
    errors = [float(error[0]) for _, error in found]
    places = range(len(names))
    colors = [kit.COLORS[index % len(kit.COLORS)] for index in places]
    axis.bar(places, heights, yerr=errors, capsize=3, color=colors)
    axis.set_xticks(list(places), names, rotation=30, ha="right", fontsize="small")
    axis.set(ylabel=label)
    axis.grid(alpha=0.3, axis="y")


def draw_regions(panels: Sequence[Sequence[tuple[str, Mapping[str, Any]]]]) -> kit.Figure:
    """Decision regions: rows of panels with a title and a picture each.

    A picture has ``grid`` (packed bytes), ``extent``, ``points`` and ``labels`` (packed).
    """
    width = max(len(row) for row in panels)
    figure, axes = kit.panels((3.0 * width, 3.2 * len(panels)), len(panels), width, squeeze=False)
    for line, row in zip(axes, panels, strict=True):
        for axis in line[len(row) :]:
            axis.set_axis_off()
        for axis, (title, picture) in zip(line, row, strict=False):
            _regions(axis, picture)
            axis.set_title(title, fontsize="medium")
    return figure


def _regions(axis: Any, picture: Mapping[str, Any]) -> None:
    left, right, bottom, top = picture["extent"]
    grid = kit.unpack(picture["grid"]).numpy()
    side = (left, right, bottom, top)
    axis.imshow(
        grid,
        extent=side,
        origin="lower",
        cmap="coolwarm",
        vmin=0,
        vmax=255,
        alpha=0.7,
        aspect="auto",
    )
    points = kit.unpack(picture["points"]).float().numpy()
    labels = kit.unpack(picture["labels"]).numpy()
    for label, color in ((0, "#1f3b73"), (1, "#7a1420")):
        own = points[labels == label]
        axis.scatter(own[:, 0], own[:, 1], s=2, c=color)
    axis.set(xticks=[], yticks=[], xlim=side[:2], ylim=side[2:])
