"""Table 1: curvature of the classifiers' boundaries, over all points of all runs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import nn

from colangevin.diagnostics.boundary import NONE, boundary_curvature
from colangevin.ensemble import Ensemble
from colangevin.lab import kit
from colangevin.lab.experiments.spirals import curvature_table, spiral
from colangevin.lab.experiments.spirals.curvature_table import (
    cells,
    runs_of,
    total,
    typical,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "spiral-curvature"
PAPER = {
    "sgd": (519.0, 4.33e4, 3.26e8),
    "sgd-wd": (51.1, 3.80e3, 1.14e7),
    "c-sgd": (9.38, 317.0, 5.58e5),
    "sgld": (8.73, 189.0, 6.27e5),
    "c-sgld": (6.08, 40.8, 1.43e5),
}
"""Mean, standard deviation and largest curvature in table 1."""
EXTENT, EXTENTS = 1.2, (1.0, 1.2, 1.5)
"""Half the side of the grid; and of those on which the first runs are measured, too. Ours."""
VARIED, VARIED_RUNS = ("sgd", "sgd-wd"), 10


def jobs(settings: kit.Settings) -> list[kit.Job]:
    """One job per method, with the settings of the classifiers' job; then on several grids.

    Example:
        >>> [job.name for job in jobs({"scale": "full", "seed": 0, "runs": 100})][4:6]
        ['c-sgld', 'extents-sgd']
    """
    varied = {**settings, "runs": min(settings["runs"], VARIED_RUNS), "extents": EXTENTS}
    found = [kit.Job(NAME, name, {**settings, **own}) for name, own in spiral.METHODS.items()]
    for name in VARIED:
        found.append(kit.Job(NAME, f"extents-{name}", {**varied, **spiral.METHODS[name]}))
    return found


def run(job: kit.Job, log: kit.Log) -> None:
    """Measure the trained networks of the classifiers' run, or train them."""
    settings = job.settings
    ready = spiral.trained(log, settings.get("radii"), settings.get("temperature", 0.0))
    if ready is None:
        return
    found = curvatures(ready[0], settings, log)
    if found is None:
        return
    removed = kit.ensembles.removals(ready[0])
    if "extents" not in settings:
        log.finish(curvature=found, removed=removed)
        return
    size = len(NONE)
    parts = range(len(settings["extents"]))
    log.finish(
        curvatures=[[run[size * part : size * (part + 1)] for run in found] for part in parts],
        removed=removed,
    )


def curvatures(
    ensemble: Ensemble, settings: kit.Settings, log: kit.Log
) -> list[list[float]] | None:
    """The curvature of every network on each of the grids, one after the other.

    Returns:
        No points for a network that was removed; None to make an end.
    """
    grid = 1000 if settings["scale"] != "smoke" else 100
    extents = settings.get("extents", (EXTENT,))

    def examine(network: nn.Module) -> list[float]:
        return [n for side in extents for n in boundary_curvature(network, side, grid)]

    found = spiral.examined(ensemble, log, examine)
    if found is None:
        return None
    by_member = dict(zip(ensemble.active, found, strict=True))
    nothing = list(NONE) * len(extents)
    return [by_member.get(member, nothing) for member in range(len(ensemble.seeds))]


def on_grid(record: kit.Record, part: int) -> kit.Record:
    """A record of several grids as one of one of them."""
    return replace(record, final={"curvature": record.final["curvatures"][part]})


def figures(records: kit.Records) -> dict[str, Figure]:
    """Mean curvature of each run, beside the paper's mean."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained")
    axis = figure.subplots()
    labels = []
    shown = {job: record for job, record in records.items() if job in PAPER}
    for place, (job, record) in enumerate(shown.items()):
        runs = runs_of(record)
        means = [run.mean for run in runs]
        offsets = torch.linspace(-0.2, 0.2, max(len(means), 1)).tolist()
        axis.plot([place + o for o in offsets[: len(means)]], means, ".", color="#4c72b0", ms=4)
        axis.plot([place], [total(runs).mean], "D", color="#c44e52", label="mean of all points")
        axis.plot([place], [PAPER[job][0]], "_", color="black", ms=24, label="paper")
        labels.append(record.label)
    axis.set(yscale="log", ylabel="mean curvature of a run", xticks=range(len(labels)))
    axis.set_xticklabels(labels)
    handles, names = axis.get_legend_handles_labels()
    once = dict(zip(names, handles, strict=True))
    axis.legend(list(once.values()), list(once))
    axis.grid(alpha=0.3, axis="y")
    return {"curvature": figure}


def table(records: kit.Records) -> kit.Table:
    """Table 1, medians first, with the paper's values; and what other grids make of it."""
    rows = []
    for job, record in records.items():
        if job in PAPER:
            varied = records.get(f"extents-{job}")
            grids = [on_grid(varied, part) for part in range(len(EXTENTS))] if varied else []
            medians = " / ".join(f"{typical(own):.3g}" for own in grids)
            means = " / ".join(f"{total(runs_of(own)).mean:.3g}" for own in grids)
            points = f"{total(runs_of(record)).points:,}"
            numbers = cells(record, PAPER[job])
            rows.append([record.label, points, *numbers, medians or "–", means or "–"])
    sides = " / ".join(f"{side:g}" for side in EXTENTS)
    heads = [
        f"{what}, first {VARIED_RUNS} runs, grids to ±{sides}" for what in ("medians", "means")
    ]
    return kit.Table(["method", "points", *curvature_table.COLUMNS, *heads], rows)


def claims(records: kit.Records) -> list[kit.Claim]:
    """Circles make boundaries smoother, and so does noise; the numbers of table 1."""
    stated = [("c-sgd", "sgd"), ("c-sgd", "sgd-wd"), ("sgld", "sgd"), ("sgd-wd", "sgd")]
    stated += [("c-sgld", other) for other in PAPER if other != "c-sgld"]
    pairs = [(a, b) for a, b in stated if a in records and b in records]
    found = [curvature_table.less(records[a], [records[b]]) for a, b in pairs]
    return [*found, curvature_table.numbers(records, PAPER)]


EXPERIMENT = kit.Experiment(
    name=NAME,
    title="curvature of the boundaries of the two-turn spiral's classifiers",
    phrase="curvature of decision boundaries",
    source="table 1",
    claimed="""circles and temperature make the boundaries of the classifiers smoother (table 1:
        mean, standard deviation and maximum of the curvature)""",
    ours="""the extent of the grid, [-1.2, 1.2]², on which the means depend (varied in the
        table); the data of every run; the test, by the runs' mean curvatures one by one""",
    settings_stated="""
        estimator | (4.60) on contours of a grid | the same
        extent of the grid | not stated | [-1.2, 1.2]²; three grids for 10 runs of SGD;
          1,000 x 1,000 points
        network | 1 hidden layer, 500 nodes | {hidden} nodes
        step size h, batch | 0.05, 2 % | {lr}, {batch_size} of {train_points} points
        radii of the circles, temperature | 1 and 5, 5e-5 | 1 and 5, 5e-5
        epochs, runs | 10,000, 100 | {epochs}, {runs}
        data | one draw for all runs, as figure 2 suggests | every run draws its own
        points of the two arms | mirrored in the authors' code | drawn for each arm
    """,
    scales=spiral.SCALES,
    jobs=jobs,
    run=run,
    figures=figures,
    table=table,
    claims=claims,
    note="The networks of spiral-classifiers where they are in the same output directory. "
    + curvature_table.NOTE
    + ". The 100 runs of C-SGD and C-SGLD are older than the smallest slack of a circle; the rows "
    "τ = 0 and τ = 5e-5 of [spiral-temperature](spiral-temperature.md) are the same methods and "
    "seeds with it. A few points make the mean of all points in both, and the medians are near. "
    "The grids were varied for the first 10 runs of SGD with and without weight decay",
    times={"smoke": "5 s", "laptop": "1 min", "full": "12 min"},
)
