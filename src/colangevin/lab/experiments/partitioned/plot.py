"""Pictures of chapter 3: bars, and decision regions in a row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from colangevin.lab import kit


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
