"""What comes of the records on deep plain networks: pictures, table and verdicts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from colangevin.lab import kit
from colangevin.lab.experiments.problems import search

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ACCURACY = kit.Quantity("test_accuracy", "test accuracy, %", 1, 100.0, 1, chance=15.0)
SECONDS = kit.Quantity("seconds", "processor time of a training, s", -1, digits=1)
VALID = "valid_accuracy"
NEAR = 0.05
"""An lr works if its accuracy is at most this far below the best of the method."""


def working(record: kit.Record) -> list[float]:
    """The learning rates that work, with one seed."""
    found = search.searched(record, VALID)
    best = max(value for _, value in found if value == value)
    return [own["lr"] for own, value in found if value >= best - NEAR]


def _depths(records: kit.Records) -> list[int]:
    return sorted({record.settings["depth"] for record in records.values()})


def figures(records: kit.Records) -> dict[str, Figure]:
    """Accuracy against depth, and against the learning rate in the deepest networks."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11.0, 4.6), layout="constrained")
    left, *right = figure.subplots(1, 3, sharey=True)
    depths = _depths(records)
    labels = list(dict.fromkeys(record.settings["label"] for record in records.values()))
    by_label = {
        label: [own for own in records.values() if own.settings["label"] == label]
        for label in labels
    }
    for place, (label, own) in enumerate(by_label.items()):
        line = {"color": kit.COLORS[place // 2], "linestyle": kit.STYLES[place % 2]}
        kit.band(
            left,
            [record.settings["depth"] for record in own],
            np.array([ACCURACY.of(record).values for record in own]),
            **line,
            label=label,
        )
        deepest = [record for record in own if record.settings["depth"] == depths[-1]]
        for record in deepest:
            found = search.searched(record, VALID)
            axis = right[record.settings["direction"] == "adam"]
            lrs, values = [item["lr"] for item, _ in found], [100 * value for _, value in found]
            axis.plot(lrs, values, marker="o", markersize=3, **line)
    left.set(xlabel="hidden layers", ylabel="right answers, %", title="test, lr chosen for each")
    left.set_xticks(depths)
    for axis, title in zip(right, ("along the gradient", "along Adam"), strict=True):
        axis.set(xlabel="lr", xscale="log", title=f"{depths[-1]} layers {title}, validation, 1 run")
    for axis in (left, *right):
        axis.grid(alpha=0.3)
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=4)
    kit.say_bands(figure)
    return {"depth": figure}


def table(records: kit.Records) -> kit.Table:
    """Accuracies of new seeds, and the learning rates that work."""
    found = search.table(records, [ACCURACY, SECONDS])
    columns = ["hidden layers", *found.columns, "lr that work (within 5 points of the best)"]
    rows = []
    for record, row in zip(records.values(), found.rows, strict=True):
        lrs = ", ".join(f"{lr:g}" for lr in working(record))
        rows.append([str(record.settings["depth"]), *row, lrs])
    return kit.Table(columns, rows)


def claims(records: kit.Records) -> list[kit.Claim]:
    """At each depth: the constraint against the start alone, and against normalisation."""
    found = []
    for depth in _depths(records):
        where = f", {depth} hidden layers"
        for direction in ("gradient", "adam"):
            one, start = f"orthogonal-{direction}-{depth}", f"start-{direction}-{depth}"
            found += search.ahead(records, ACCURACY, one, [start], where)
        others = [f"norm-{direction}-{depth}" for direction in ("gradient", "adam")]
        others.append(f"he-adam-{depth}")
        found += search.ahead(records, ACCURACY, f"orthogonal-adam-{depth}", others, where)
    return found
