"""The demo's picture: for each effect the curves, and the regions of both methods."""

from __future__ import annotations

from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from colangevin.lab import kit
from colangevin.lab.experiments.demo import demo
from colangevin.lab.experiments.spirals import regions

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLORS = ("#c44e52", "#2a6fbb")
"""Without and with a constraint."""
GRAY = "0.45"
"""Of the rivals."""
TITLES = {
    "spiral": "Overfitting: bounded weights with noise\nkeep the test loss low",
    "depth": "Depth: with orthogonal weights,\n{depth} hidden layers learn",
}
"""Of complete runs."""
SIZE = (11.5, 7.4)
"""In inches."""
LABELS = {"test_loss": "test loss", "test_accuracy": "test accuracy, %"}
LEGENDS = {"C-SGLD": "bounded, with noise (C-SGLD)", "orthogonal": "orthogonal weights"}


def draw(records: kit.Records) -> Figure:
    """One row per effect: curves of both methods, and what their first runs predict."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=SIZE, layout="constrained")
    grid = figure.subplots(len(demo.EFFECTS), 3, width_ratios=(1.35, 1, 1), squeeze=False)
    for row, effect in zip(grid, demo.EFFECTS, strict=True):
        found = [records.get(name) for name, _ in (effect.plain, effect.constrained)]
        _curves(row[0], effect, found)
        if effect.rival is not None:
            _rivals(row[0], effect, found[0], records.get(effect.rival[0]))
        row[0].set_title(_title(effect, records), loc="left", fontweight="bold")
        for axis, record, color in zip(row[1:], found, COLORS, strict=True):
            _regions(axis, effect, record, color)
    runs = {part["part"]: part["runs"] for part in demo.SCALES[demo.NAME]["parts"]}
    seeds = " and ".join(str(runs[effect.part]) for effect in demo.EFFECTS)
    figure.supxlabel(
        f"Lines: mean over {seeds} seeds; bands: two standard errors. Regions and points: the seed "
        "of median accuracy at the end. Numbers in titles: mean over the seeds, last tenth of the "
        "epochs.",
        fontsize="small",
        color="gray",
    )
    return figure


def _title(effect: demo.Effect, records: kit.Records) -> str:
    """What is seen; of a run that was stopped, where."""
    if words := demo.stopped(effect, records):
        return fill(words, 40)
    return TITLES[effect.part].format(**records[effect.plain[0]].settings)


def _curves(axis: Any, effect: demo.Effect, found: list[kit.Record | None]) -> None:
    for record, color in zip(found, COLORS, strict=True):
        if record is None:
            continue
        values = effect.factor * np.array(record.series(effect.key))
        label = record.label
        shown = LEGENDS.get(label, label)
        kit.band(axis, record.history["epoch"], values, color=color, label=shown, linewidth=2.2)
    axis.set(xlabel="epoch", ylabel=LABELS[effect.key])
    axis.grid(alpha=0.3)
    if axis.get_legend_handles_labels()[0] and effect.rival is None:
        axis.legend(loc="upper left", frameon=False)
    axis.spines[["top", "right"]].set_visible(False)


def _rivals(
    axis: Any, effect: demo.Effect, plain: kit.Record | None, rival: kit.Record | None
) -> None:
    """Another method, and where the first one would have had to stop."""
    if rival is not None:
        values = effect.factor * np.array(rival.series(effect.key))
        style = {"color": GRAY, "label": rival.label, "linewidth": 1.6}
        axis.plot(rival.history["epoch"], np.nanmean(values, axis=1), **style)
    if plain is not None:
        means = effect.factor * np.nanmean(np.array(plain.series(effect.key)), axis=1)
        words = "SGD at its best epoch, chosen by the test loss"
        axis.axhline(means.min(), color=GRAY, linestyle=":", label=words)
    if axis.get_legend_handles_labels()[0]:
        axis.legend(loc="upper center", frameon=False, fontsize="small")


def _regions(axis: Any, effect: demo.Effect, record: kit.Record | None, color: str) -> None:
    kept = None if record is None else record.final.get("picture")
    if record is None or not kept:
        axis.set_axis_off()
        return
    regions.draw(axis, kept, "test" if effect.part == "depth" else "train")
    mean = kit.mean_std(kit.late(record, effect.key, effect.factor))[0]
    right = kit.mean_std(kit.late(record, "test_accuracy", 100.0))[0]
    number = f"{right:.0f} % right"
    if effect.sign < 0:
        number = f"loss {mean:.2f}, {number}"
    axis.set_title(f"{record.label}: {number}", color=color, fontweight="bold")
