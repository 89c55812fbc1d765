"""What comes of the records on robust networks: pictures, table and verdicts."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from colangevin.lab import kit
from colangevin.lab.experiments.problems import searching

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OURS = "orthogonal-sort"
"""The method for which the claims are made, named before anything was run."""
TORCH = ("torch-orthogonal", "torch-spectral")
SHOWN = ("sgd", "decay", "attacked", OURS, "spectral-sort", *TORCH)
RADII = (0.25, 0.5, 1.0)
"""Euclidean, of attacks and certificates; trials are chosen for the middle one."""


def percent(key: str, label: str) -> kit.Quantity:
    """A share of images."""
    return kit.Quantity(key, f"{label}, %", 1, 100.0, 1)


CLEAN = percent("test_accuracy", "test accuracy")
ATTACKED = [percent(f"attacked_{radius:g}", f"attacked within {radius:g}") for radius in RADII]
CERTIFIED = [percent(f"certified_{radius:g}", f"certified within {radius:g}") for radius in RADII]
SIGNS = percent("signs", "after one step of signs of 0.035")
SECONDS = kit.Quantity("seconds", "processor time of a training, s", -1, digits=1)
BOUND = kit.Quantity("bound", "product of the spectral norms", -1, digits=3)
EXACT = kit.Quantity("gram_error", "largest entry of WᵀW − I, in units of 1e-6", -1, 1e6)


def draw(records: kit.Records) -> Figure:
    """Accuracy against the radius of the attack, and what is certain."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.6, 4.4), layout="constrained")
    axes = figure.subplots(1, 2, sharey=True)
    for axis, title, kinds in zip(
        axes, ("under attack", "certified"), (ATTACKED, CERTIFIED), strict=True
    ):
        for place, name in enumerate(SHOWN):
            if name not in records:
                continue
            values = np.array([own.of(records[name]).values for own in (CLEAN, *kinds)])
            line = {"color": kit.COLORS[place], "linestyle": kit.STYLES[place % len(kit.STYLES)]}
            kit.band(axis, [0.0, *RADII], values, label=records[name].settings["label"], **line)
        axis.set(title=title, xlabel="Euclidean radius, pixels from 0 to 1", ylim=(0, 100))
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("right answers, %")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4)
    kit.say_bands(figure)
    return figure


def lost(records: kit.Records) -> list[kit.Claim]:
    """The accuracy that a bound costs, in points."""
    if OURS not in records or "sgd" not in records:
        return []
    free, bounded = (CLEAN.of(records[name]).values for name in ("sgd", OURS))
    ours = kit.Measured("", [one - other for one, other in zip(free, bounded, strict=True)])
    return [kit.number("test accuracy that a bound costs, points", "1", ours, digits=1)]


TABLE: list[kit.Column | kit.Quantity] = [
    kit.METHOD,
    searching.CHOSEN,
    CLEAN,
    SIGNS,
    *ATTACKED,
    *CERTIFIED,
    BOUND,
    EXACT,
    SECONDS,
]
STRONG, SURE = ATTACKED[1], CERTIFIED[1]
CLAIMS: list[Callable[[kit.Records], list[kit.Claim]]] = [
    kit.Ahead(STRONG, OURS, over=("sgd", "decay")),
    kit.Ahead(STRONG, OURS, over=("attacked",)),
    kit.Ahead(SURE, OURS, over=("sgd", "decay", "attacked")),
    kit.Ahead(SURE, OURS, over=TORCH),
    kit.Ahead(SURE, OURS, over=("orthogonal-relu",)),
    kit.Ahead(SURE, OURS, over=("spectral-sort",)),
    kit.Ahead(SECONDS, OURS, over=("torch-orthogonal",)),
    lost,
    kit.Inside(EXACT, OURS, "at most 1", high=1.0),
]
