"""Pictures of the two-turn spiral: decision regions and curves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from colangevin.lab.experiments.curves import COLORS, band, factor_of, say_bands
from colangevin.lab.experiments.job_log import unpack
from colangevin.lab.experiments.records import Records

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LOSS_COLORS = {"train_loss": COLORS[0], "test_loss": COLORS[1]}
CURVES = {"test_loss": "test loss", "test_accuracy": "test accuracy, %"}


def draw_regions(records: Records, *, every_run: bool = False) -> Figure:
    """Figure 1: regions with training and with test points, and losses; one column per method.

    Args:
        records: one per method.
        every_run: draw losses as a mean over the runs with two standard errors on either side,
            and not those of the first run, whose regions and points are shown.
    """
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
            values = np.array(record.series(key))
            values = values if every_run else values[:, :1]
            line = {"color": LOSS_COLORS[key], "linestyle": style}
            band(bottom, record.history["epoch"], values, label=key.replace("_", " "), **line)
        bottom.set(xlabel="epoch", yscale="log")
        bottom.legend()
    for row, label in enumerate(("training points", "test points", "loss")):
        axes[row, 0].set_ylabel(label)
    return figure


def draw_demo(records: Records) -> Figure:
    """The demo's picture: regions, and what was reached on average over the runs."""
    figure = draw_regions(records, every_run=True)
    settings = records.settings
    epochs = sorted({record.history["epoch"][-1] for record in records.values()})
    trained = f"{epochs[0]:,}" if len(epochs) == 1 else f"{epochs[0]:,} to {epochs[-1]:,}"
    figure.suptitle(
        f"Two-turn spiral, {settings['hidden']} hidden nodes, {trained} epochs, seed "
        f"{settings['seed']}. Points and regions: first run.\nAccuracies and losses: mean over "
        f"{settings['runs']} runs; bands: two standard errors."
    )
    for axis, (job, record) in zip(figure.axes, records.items(), strict=False):
        mean = 100.0 * records.mean_std(job, "test_accuracy")[0]
        axis.set_title(f"{record.settings['label']}\n{mean:.1f} % of test points right")
    losses = figure.axes[2 * len(records) : 3 * len(records)]
    for axis in losses:
        axis.set_yscale("linear")
    highest = max(axis.get_ylim()[1] for axis in losses)
    for axis in losses:
        axis.set_ylim(0.0, highest)
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
