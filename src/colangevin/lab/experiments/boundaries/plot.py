"""Pictures of boundary-digits: images, types, maps of disagreement, certainty."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from torch import Tensor

from colangevin import diagnostics
from colangevin.lab import kit
from colangevin.lab.experiments.boundaries.certainty import repetitions
from colangevin.lab.experiments.boundaries.digit_images import ALPHAS, PAIRS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WORDS = {"diverse": "different kinds", "mlp": "MLPs", "cnn": "CNNs", "vit": "ViTs"}
BARS = "bars: one standard deviation over repetitions, where there are several"
SHADES = {
    "both agree": "#c8c8c8",
    "only the networks disagree (A)": "#4c72b0",
    "only the reference disagrees (C)": "#c44e52",
    "both disagree": "#ffffff",
}


def images(record: kit.Record, reference: Tensor) -> Figure:
    """All images, one pair of digits per row, with the labels of the reference above each."""
    from matplotlib.figure import Figure

    pictures = kit.unpack(record.final["images"]).numpy()
    figure = Figure(figsize=(0.72 * ALPHAS, 0.86 * len(PAIRS)), layout="constrained")
    axes = figure.subplots(len(PAIRS), ALPHAS).flatten()
    for place, axis in enumerate(axes):  # of the first set
        axis.imshow(pictures[place], cmap="gray_r", vmin=0, vmax=255)
        found = sorted(set(reference[:, place].tolist()))
        said = ", ".join(map(str, found))
        color = "black" if len(found) == 1 else kit.COLORS[4]
        axis.set_title(said, fontsize=7, color=color, pad=2)
        axis.set_axis_off()
    text = "labels of the reference networks; red where they disagree"
    figure.suptitle(text, fontsize="small", color="gray")
    return figure


def types(rows: Mapping[str, Mapping[str, Sequence[Any]]]) -> Figure:
    """Shares of the types A and C by test accuracy, one line per group."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.0, 3.8), layout="constrained")
    axes = figure.subplots(1, 2)
    for axis, kind in zip(axes, ("A", "C"), strict=True):
        for color, (group, targets) in zip(kit.COLORS, rows.items(), strict=False):
            places = [float(target) for target in targets]
            values = [[row.shares[kind] for row in own] for own in targets.values()]
            _with_spreads(axis, places, values, color=color, label=WORDS[group])
            axis.set_xticks(places)
        axis.set(xlabel="target test accuracy, %", ylabel=f"images of type {kind}, %")
        axis.set_ylim(bottom=0)
        axis.grid(alpha=0.3)
    kit.shared_legend(figure, axes)
    figure.suptitle(BARS, fontsize="small", color="gray")
    return figure


def _with_spreads(
    axis: Any, places: Sequence[float], values: Sequence[Sequence[float]], **style: str
) -> None:
    """Draw means of the values at each place, with bars where there are several."""
    means, spreads, _ = zip(*map(kit.mean_std, values), strict=True)
    axis.errorbar(places, means, spreads, marker="o", capsize=3, **style)


def maps(record: kit.Record, reference: Tensor) -> Figure:
    """Where CNNs and the reference disagree, one panel per target accuracy.

    Without a group of CNNs it is the set of different kinds.
    """
    from matplotlib.colors import ListedColormap
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    groups = record.final["groups"]
    group = "cnn" if "cnn" in groups else "diverse"
    targets = groups[group]
    figure = Figure(figsize=(3.4 * len(targets), 5.2), layout="constrained")
    axes = figure.subplots(1, len(targets), squeeze=False)[0]
    names = [f"{i} and {j}" for i, j in PAIRS]
    for axis, (target, own) in zip(axes, targets.items(), strict=True):
        labels = kit.unpack(own["answers"]).float().argmax(dim=2)
        labels = repetitions(labels, group, record.settings["seeds"])[0]
        grid = (~diagnostics.agrees(labels)).int() + 2 * (~diagnostics.agrees(reference)).int()
        axis.imshow(
            grid[: len(PAIRS) * ALPHAS].view(len(PAIRS), ALPHAS).numpy(),
            cmap=ListedColormap(list(SHADES.values())),
            vmin=-0.5,
            vmax=3.5,
            aspect="auto",
        )
        axis.set(title=f"{target} %", xlabel="α")
        axis.set_xticks([0, (ALPHAS - 1) // 2, ALPHAS - 1], ["0", "0.5", "1"])
        axis.set_yticks(range(len(PAIRS)), names, fontsize="x-small")
    patches = [Patch(facecolor=c, edgecolor="gray", label=n) for n, c in SHADES.items()]
    figure.legend(handles=patches, loc="outside lower center", ncols=2, fontsize="small")
    figure.suptitle(f"networks: {WORDS[group]}", fontsize="small", color="gray")
    return figure


def certainties(record: kit.Record, reference: Tensor) -> Figure:
    """Certainty of the networks on images of each certainty of the reference (table 6.9)."""
    from matplotlib.figure import Figure

    groups = record.final["groups"]
    figure = Figure(figsize=(3.6 * len(groups), 3.6), layout="constrained")
    axes = figure.subplots(1, len(groups), squeeze=False, sharey=True)[0]
    for axis, (group, targets) in zip(axes, groups.items(), strict=True):
        for color, (target, own) in zip(kit.COLORS, targets.items(), strict=False):
            labels = kit.unpack(own["answers"]).float().argmax(dim=2)
            parts = [
                diagnostics.certainty_by_reference(part, reference)
                for part in repetitions(labels, group, record.settings["seeds"])
            ]
            levels = [100 * level for level in parts[0]]
            values = [[100 * part[level].mean for part in parts] for level in parts[0]]
            _with_spreads(axis, levels, values, color=color, label=f"{target} %")
        axis.set(title=WORDS[group], xlabel="certainty of the reference, %")
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("certainty of the networks, %")
    axes[0].legend(fontsize="small")
    figure.suptitle(BARS, fontsize="small", color="gray")
    return figure
