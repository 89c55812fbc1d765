"""Pictures of the four-turn spiral: test accuracy over time and against depth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from colangevin.lab import kit
from colangevin.lab.experiments.depth.depth import LATE


def draw_panels(panels: Mapping[str, Mapping[str, kit.Record]], columns: int) -> kit.Figure:
    """Accuracies over time: one panel per title, in it one curve per label."""
    curves = {
        title: {
            label: (record.history["epoch"], accuracies(record)) for label, record in own.items()
        }
        for title, own in panels.items()
    }
    return draw_curves(curves, columns)


def draw_curves(
    panels: Mapping[str, Mapping[str, tuple[Sequence[int], Any]]], columns: int
) -> kit.Figure:
    """Mean over the runs with two standard errors on either side, one panel per title.

    Args:
        panels: by title, and then by label: epochs, and accuracies [times, runs].
        columns: panels in a row.
    """
    from matplotlib import colormaps

    columns = min(columns, len(panels))
    rows = -(-len(panels) // columns)
    figure, axes = kit.panels(
        (3.6 * columns + 0.8, 3.4 * rows), rows, columns, squeeze=False, sharex=True, sharey=True
    )
    for axis in axes.flat[len(panels) :]:
        axis.remove()
    for axis, (title, curves) in zip(axes.flat, panels.items(), strict=False):
        shades = colormaps["viridis"](np.linspace(0, 0.92, max(2, len(curves))))
        for color, (label, (epochs, values)) in zip(shades, curves.items(), strict=False):
            kit.band(axis, epochs, values, color=color, label=label)
        axis.set(title=title, xlabel="epoch", ylim=(40, 102))
        axis.grid(alpha=0.3)
    kit.shared_legend(figure, list(axes.flat)[: len(panels)])
    for row in axes:
        row[0].set_ylabel("test accuracy, %")
    kit.say_bands(figure)
    return figure


def accuracies(record: kit.Record, runs: slice = slice(None)) -> Any:
    """Test accuracies in per cent, [times, runs].

    Example:
        >>> accuracies(kit.Record("a", "b", 0, {}, history={"test_accuracy": [[0.5, 1.0]]}))
        array([[ 50., 100.]])
    """
    return 100.0 * np.array(record.series("test_accuracy"))[:, runs]


def draw_depths(records: kit.Records) -> kit.Figure:
    """Accuracy against the number of hidden layers, one curve per method."""
    found: dict[str, dict[int, kit.Measured]] = {}
    for record in records.values():
        found.setdefault(record.label, {})[record.settings["depth"]] = LATE.of(record)
    figure, axis = kit.panels((6.4, 4.2))
    for shift, (label, by_depth) in enumerate(found.items()):
        mean, error = kit.mean_error(np.array([measured.values for measured in by_depth.values()]))
        places = np.array(list(by_depth)) + 0.06 * (shift - 1.5)
        axis.errorbar(places, mean, error, fmt="o-", capsize=3, label=label)
    axis.set(xlabel="hidden layers", ylabel="test accuracy, %", ylim=(40, 102))
    axis.set_xticks(sorted({depth for by_depth in found.values() for depth in by_depth}))
    axis.grid(alpha=0.3)
    axis.legend()
    kit.say_bands(figure)
    return figure


def draw_grid(
    panels: Mapping[str, Mapping[str, Sequence[kit.Measured]]], steps: Sequence[str]
) -> kit.Figure:
    """Accuracy against the step size, one panel per depth, one curve per penalty or method."""
    figure, axes = kit.panels((4.6 * len(panels) + 0.6, 4.0), 1, len(panels), sharey=True)
    for axis, (title, curves) in zip(axes.flat, panels.items(), strict=True):
        for shift, (label, measured) in enumerate(curves.items()):
            mean, error = kit.mean_error(np.array([one.values for one in measured]))
            places = np.arange(len(measured)) + 0.05 * (shift - 1)
            if len(measured) == 1:  # a method with one step size
                axis.axhspan(mean[0] - error[0], mean[0] + error[0], color="gray", alpha=0.2)
                axis.axhline(mean[0], color="black", label=label)
            else:
                axis.errorbar(places, mean, error, fmt="o-", capsize=3, label=label)
        axis.set(title=title, xlabel="step size h", xticks=range(len(steps)), ylim=(40, 102))
        axis.set_xticklabels(steps)
        axis.set_xlim(-0.3, len(steps) - 0.7)
        axis.grid(alpha=0.3)
        axis.legend(fontsize="small")
    axes[0].set_ylabel("test accuracy, %")
    kit.say_bands(figure)
    return figure
