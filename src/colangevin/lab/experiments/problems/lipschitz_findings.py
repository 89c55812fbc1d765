"""What comes of the records on robust networks: pictures, table and verdicts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from colangevin.lab import kit
from colangevin.lab.experiments.problems import search

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OURS = "orthogonal-sort"
"""The method for which the claims are made, named before anything was run."""
TORCH = ("torch-orthogonal", "torch-spectral")
SHOWN = ("sgd", "decay", "attacked", OURS, "spectral-sort", *TORCH)
CLEAN = kit.Quantity("test_accuracy", "test accuracy, %", 1, 100.0, 1)
SIGNS = kit.Quantity("signs", "after one step of signs of 0.035, %", 1, 100.0, 1)
SECONDS = kit.Quantity("seconds", "processor time of a training, s", -1, digits=1)
BOUND = kit.Quantity("bound", "product of the spectral norms", -1, digits=3)
EXACT = 1e-6
"""How far WᵀW may be from I where a certificate is to rest on it."""


def attacked(radius: float) -> kit.Quantity:
    """Accuracy under projected gradient descent."""
    return kit.Quantity(f"attacked_{radius:g}", f"attacked within {radius:g}, %", 1, 100.0, 1)


def certified(radius: float) -> kit.Quantity:
    """Share of images that are right, and certain to stay so."""
    return kit.Quantity(f"certified_{radius:g}", f"certified within {radius:g}, %", 1, 100.0, 1)


def middle(records: kit.Records) -> float:
    """The radius for which trials were chosen."""
    radius: float = records.settings["radii"][1]
    return radius


def figures(records: kit.Records) -> dict[str, Figure]:
    """Accuracy against the radius of the attack, and what is certain."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.6, 4.4), layout="constrained")
    axes = figure.subplots(1, 2, sharey=True)
    radii = records.settings["radii"]
    for axis, title, kind in zip(
        axes, ("under attack", "certified"), (attacked, certified), strict=True
    ):
        for place, name in enumerate(SHOWN):
            if name not in records:
                continue
            quantities = [CLEAN, *map(kind, radii)]
            values = np.array([own.of(records[name]).values for own in quantities])
            line = {"color": kit.COLORS[place], "linestyle": kit.STYLES[place % len(kit.STYLES)]}
            kit.band(axis, [0.0, *radii], values, label=records[name].settings["label"], **line)
        axis.set(title=title, xlabel="Euclidean radius, pixels from 0 to 1", ylim=(0, 100))
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("right answers, %")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4)
    kit.say_bands(figure)
    return {"radii": figure}


def table(records: kit.Records) -> kit.Table:
    """Accuracies, certificates, what they rest on, and time."""
    kept = [CLEAN, SIGNS, *map(attacked, records.settings["radii"])]
    kept += [*map(certified, records.settings["radii"]), BOUND]
    found = search.table(records, [*kept, SECONDS])
    columns = [*found.columns, "largest entry of \\|WᵀW − I\\|"]
    worst = [f"{max(record.values('gram_error')):.0e}" for record in records.values()]
    rows = [[*row, cell] for row, cell in zip(found.rows, worst, strict=True)]
    return kit.Table(columns, rows)


def claims(records: kit.Records) -> list[kit.Claim]:
    """Against training without a bound, against its strongest rival, and against torch."""
    strong, sure = attacked(middle(records)), certified(middle(records))
    found = [
        *search.ahead(records, strong, OURS, ("sgd", "decay")),
        *search.ahead(records, strong, OURS, ("attacked",)),
        *search.ahead(records, sure, OURS, ("sgd", "decay", "attacked")),
        *search.ahead(records, sure, OURS, TORCH),
        *search.ahead(records, sure, OURS, ("orthogonal-relu",)),
        *search.ahead(records, sure, OURS, ("spectral-sort",)),
        *search.ahead(records, SECONDS, OURS, TORCH[:1]),
    ]
    if OURS in records and "sgd" in records:
        clean = [CLEAN.of(records[name]) for name in ("sgd", OURS)]
        lost = [free - bound for free, bound in zip(*(own.values for own in clean), strict=True)]
        ours = kit.Measured("lost", lost)
        found.append(kit.number("test accuracy that a bound costs, points", "1", ours, digits=1))
    if OURS in records:
        errors = records[OURS].values("gram_error")
        ours = kit.Measured("", [error / EXACT for error in errors])
        text = "largest entry of WᵀW − I, in units of 1e-6"
        found.append(kit.inside(text, "at most 1", ours, high=1.0, digits=2))
    return found
