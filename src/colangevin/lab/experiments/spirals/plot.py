"""Pictures of the two-turn spiral: decision regions and curves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from colangevin.lab import kit
from colangevin.lab.experiments.spirals import regions

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LOSS_COLORS = {"train_loss": kit.COLORS[0], "test_loss": kit.COLORS[1]}
CURVES = {"test_loss": "test loss", "test_accuracy": "test accuracy, %"}


def draw_regions(records: kit.Records) -> Figure:
    """Figure 1: the first run's regions, points and losses; one column per method."""
    from matplotlib.figure import Figure

    shown = [record for record in records.values() if record.final.get("picture")]
    figure = Figure(figsize=(3.0 * max(1, len(shown)), 8.4), layout="constrained")
    axes = figure.subplots(3, max(1, len(shown)), squeeze=False)
    for column, record in enumerate(shown):
        picture = record.final["picture"]
        for row, kind in enumerate(("train", "test")):
            regions.draw(axes[row, column], picture, kind)
        axes[0, column].set_title(record.settings["label"])
        bottom = axes[2, column]
        for key, style in (("train_loss", "--"), ("test_loss", "-")):
            values = np.array(record.series(key))[:, :1]
            line = {"color": LOSS_COLORS[key], "linestyle": style}
            kit.band(bottom, record.history["epoch"], values, label=key.replace("_", " "), **line)
        bottom.set(xlabel="epoch", yscale="log")
        bottom.legend()
    for row, label in enumerate(("training points", "test points", "loss")):
        axes[row, 0].set_ylabel(label)
    return figure


def draw_curves(records: kit.Records) -> Figure:
    """Figure 2: test loss and accuracy, mean over the runs with two standard errors."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4), layout="constrained")
    for axis, (key, label) in zip(figure.subplots(1, 2), CURVES.items(), strict=True):
        factor = kit.factor_of(key)
        for color, record in zip(kit.COLORS, records.values(), strict=False):
            values = factor * np.array(record.series(key))
            epochs, name = record.history["epoch"], record.settings["label"]
            kit.band(axis, epochs, values, color=color, label=name)
        axis.set(xlabel="epoch", ylabel=label)
        axis.grid(alpha=0.3)
        axis.legend()
    kit.say_bands(figure)
    return figure
