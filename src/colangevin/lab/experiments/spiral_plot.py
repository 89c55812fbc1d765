"""Pictures of the two-turn spiral: decision regions and curves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from colangevin.lab.experiments.curves import COLORS, band, factor_of, say_bands
from colangevin.lab.experiments.job_log import unpack
from colangevin.lab.experiments.records import Records

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CURVES = {"test_loss": "test loss", "test_accuracy": "test accuracy, %"}


def draw_regions(records: Records) -> Figure:
    """Figure 1: regions with training and with test points, and losses, a method a column."""
    from matplotlib.figure import Figure

    shown = [record for record in records.values() if record.final.get("picture")]
    figure = Figure(figsize=(3.0 * max(1, len(shown)), 8.4), layout="constrained")
    axes = figure.subplots(3, max(1, len(shown)), squeeze=False)
    for column, record in enumerate(shown):
        picture = record.final["picture"]
        for row, kind in enumerate(("train", "test")):
            _regions(axes[row, column], picture, kind)
        axes[0, column].set_title(record.settings["label"])
        bottom = axes[2, column]
        for key, style in (("train_loss", "--"), ("test_loss", "-")):
            values = [entry[0] for entry in record.series(key)]
            bottom.plot(record.history["epoch"], values, style, label=key.replace("_", " "))
        bottom.set(xlabel="epoch", yscale="log")
        bottom.legend()
    for row, label in enumerate(("training points", "test points", "loss")):
        axes[row, 0].set_ylabel(label)
    return figure


def _regions(axis: Any, picture: dict[str, Any], kind: str) -> None:
    side = picture["extent"]
    grid = unpack(picture["grid"]).numpy()
    extent = (-side, side, -side, side)
    axis.imshow(grid, extent=extent, origin="lower", cmap="coolwarm", vmin=0, vmax=255, alpha=0.7)
    points = unpack(picture[kind]).float().numpy()
    labels = unpack(picture[f"{kind}_labels"]).numpy()
    for label, color in ((0, "#1f3b73"), (1, "#7a1420")):
        own = points[labels == label]
        axis.scatter(own[:, 0], own[:, 1], s=8 if kind == "train" else 3, c=color)
    axis.set(xticks=[], yticks=[], xlim=(-side, side), ylim=(-side, side))


def draw_curves(records: Records) -> Figure:
    """Figure 2: test loss and accuracy, mean over the runs with two standard errors."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4), layout="constrained")
    for axis, (key, label) in zip(figure.subplots(1, 2), CURVES.items(), strict=True):
        factor = factor_of(key)
        for color, record in zip(COLORS, records.values(), strict=False):
            values = factor * np.array(record.series(key))
            epochs, name = record.history["epoch"], record.settings["label"]
            band(axis, epochs, values, color=color, label=name)
        axis.set(xlabel="epoch", ylabel=label)
        axis.grid(alpha=0.3)
        axis.legend()
    say_bands(figure)
    return figure
