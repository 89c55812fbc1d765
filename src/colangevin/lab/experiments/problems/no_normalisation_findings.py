"""What comes of the records on deep plain networks: pictures, table and verdicts."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from colangevin.lab import kit
from colangevin.lab.experiments.problems import searching

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ACCURACY = kit.Quantity("test_accuracy", "test accuracy, %", 1, 100.0, 1, chance=15.0)
SECONDS = kit.Quantity("seconds", "processor time of a training, s", -1, digits=1)
VALID = "valid_accuracy"
NEAR = 0.05
"""An lr works if its accuracy is at most this far below the best of the method."""


def working(record: kit.Record) -> list[float]:
    """The learning rates that work, with one seed."""
    found = searching.searched(record, VALID)
    best = max(value for _, value in found if value == value)
    return [own["lr"] for own, value in found if value >= best - NEAR]


def _depths(records: kit.Records) -> list[int]:
    return sorted({record.settings["depth"] for record in records.values()})


def draw(records: kit.Records) -> Figure:
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
            found = searching.searched(record, VALID)
            axis = right[record.settings["direction"] == "adam"]
            lrs, values = [item["lr"] for item, _ in found], [100 * value for _, value in found]
            axis.plot(lrs, values, marker="o", markersize=3, **line)
    left.set(xlabel="hidden layers", ylabel="right answers, %", title="test, lr chosen for each")
    left.set_xticks(depths)
    for axis, title in zip(right, ("along the gradient", "along Adam"), strict=True):
        axis.set(xlabel="lr", xscale="log", title=f"{depths[-1]} layers {title}\nvalidation, 1 run")
    for axis in (left, *right):
        axis.grid(alpha=0.3)
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=4)
    kit.say_bands(figure)
    return figure


TABLE: list[kit.Column | kit.Quantity] = [
    kit.Column("hidden layers", "depth"),
    *(kit.METHOD, searching.CHOSEN, ACCURACY, SECONDS),
    kit.Column(
        "lr that work (within 5 points of the best, validation, 1 run)",
        lambda own: ", ".join(f"{lr:g}" for lr in working(own)),
    ),
]
NORM = ("norm-gradient-{depth}", "norm-adam-{depth}", "he-gradient-{depth}", "he-adam-{depth}")
EACH = {"depth": (10, 30, 50)}
WHERE = "test accuracy with {depth} hidden layers, %"
CLAIMS: list[Callable[[kit.Records], list[kit.Claim]]] = [
    kit.Ahead(
        ACCURACY,
        "orthogonal-gradient-{depth}",
        over=("start-gradient-{depth}",),
        text=WHERE,
        each=EACH,
    ),
    kit.Ahead(
        ACCURACY, "orthogonal-adam-{depth}", over=("start-adam-{depth}",), text=WHERE, each=EACH
    ),
    kit.Ahead(
        ACCURACY,
        "orthogonal-adam-{depth}",
        over=(kit.Of(NORM, strongest=True),),
        text=f"{WHERE}, against the best of BatchNorm and of He's start",
        each=EACH,
    ),
]
