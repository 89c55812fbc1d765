"""Table 1: curvature of the classifiers' boundaries, over all points of all runs."""

from __future__ import annotations

from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING

import torch

from colangevin.diagnostics.boundary import NONE, Curvature, boundary_curvature
from colangevin.ensemble import Ensemble
from colangevin.experiments import spiral
from colangevin.experiments.experiment import (
    NOT_REPRODUCED,
    ORDERING,
    REPRODUCED,
    Claim,
    Experiment,
    Job,
    Settings,
    Table,
)
from colangevin.experiments.log import Log
from colangevin.experiments.records import Record, Records

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
NEAR = 1.25
"""A mean within this factor of the paper's counts as the same number."""


def jobs(settings: Settings) -> list[Job]:
    """One job a method, with the settings of the classifiers' job."""
    return [Job(NAME, name, {**settings, **own}) for name, own in spiral.METHODS.items()]


def run(job: Job, log: Log) -> None:
    """Measure the trained networks of the classifiers' run, or train them."""
    settings = job.settings
    ready = spiral.trained(log, settings.get("radii"), settings.get("temperature", 0.0))
    if ready is None:
        return
    found = curvatures(ready[0], settings, log)
    if found is not None:
        log.finish(curvature=[list(part) for part in found])


def curvatures(ensemble: Ensemble, settings: Settings, log: Log) -> list[Curvature] | None:
    """The curvature of every network; None if the user wanted an end."""
    grid = 1000 if settings["scale"] != "smoke" else 100
    found = []
    for network in spiral.networks(ensemble):
        found.append(boundary_curvature(network, grid=grid))
        if not log.keep_going(0.999):
            log.save({"ensemble": ensemble.state_dict()})
            return None
    return found


def total(record: Record) -> Curvature:
    """All points of all runs together."""
    result = NONE
    for points, *sums in record.final["curvature"]:
        result = result + Curvature(int(points), *sums)
    return result


def run_means(record: Record) -> list[float]:
    """The mean curvature of every run.

    Example:
        >>> run_means(Record("a", "b", 0, {}, final={"curvature": [[2, 3.0, 5.0, 2.0]]}))
        [1.5]
    """
    return [part[1] / part[0] for part in record.final.get("curvature", []) if part[0]]


def figures(records: Records) -> dict[str, Figure]:
    """Mean curvature of each run, beside the paper's mean."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained")
    axis = figure.subplots()
    labels = []
    for place, (job, record) in enumerate(records.items()):
        means = run_means(record)
        offsets = torch.linspace(-0.2, 0.2, max(len(means), 1)).tolist()
        axis.plot([place + o for o in offsets[: len(means)]], means, ".", color="#4c72b0", ms=4)
        axis.plot([place], [total(record).mean], "D", color="#c44e52", label="mean of all points")
        if job in PAPER:
            axis.plot([place], [PAPER[job][0]], "_", color="black", ms=24, label="paper")
        labels.append(record.settings["label"])
    axis.set(yscale="log", ylabel="mean curvature of a run", xticks=range(len(labels)))
    axis.set_xticklabels(labels)
    handles, names = axis.get_legend_handles_labels()
    once = dict(zip(names, handles, strict=True))
    axis.legend(list(once.values()), list(once))
    axis.grid(alpha=0.3, axis="y")
    return {"curvature": figure}


def table(records: Records) -> Table:
    """Table 1 with the paper's values."""
    columns = ["method", "mean", "std", "max", "points", "median of the runs' means"]
    columns += ["paper: mean", "std", "max"]
    rows = []
    for job, record in records.items():
        sums = total(record)
        ours = [f"{v:.3g}" for v in (sums.mean, sums.deviation, sums.largest)]
        theirs = [f"{v:.3g}" for v in PAPER[job]]
        middle = f"{median(run_means(record)):.3g}"
        rows.append([record.settings["label"], *ours, f"{sums.points:,}", middle, *theirs])
    return Table(columns, rows)


def claims(records: Records) -> list[Claim]:
    """The mean curvatures, and that every method is smoother than the one before."""
    means = {job: total(record).mean for job, record in records.items()}
    order = [job for job in PAPER if job in means]
    falling = all(means[a] > means[b] for a, b in pairwise(order))
    return [claim_of(records[job], PAPER[job][0], means[job], falling) for job in order]


def claim_of(record: Record, paper: float, mean: float, ordered: bool) -> Claim:
    """Compare a mean curvature with the paper's.

    Example:
        >>> record = Record("a", "b", 0, {"label": "SGD", "runs": 3})
        >>> claim_of(record, 10.0, 11.0, True).verdict
        'reproduced'
    """
    near = paper / NEAR <= mean <= paper * NEAR
    verdict = REPRODUCED if near else ORDERING if ordered else NOT_REPRODUCED
    runs = run_means(record)
    spread = f" ± {torch.tensor(runs).std():.2g} between runs" if len(runs) > 1 else ""
    count = f"{len(runs)} runs" if runs else f"{record.settings['runs']} runs"
    why = ""
    if not near and runs:
        why = "the mean hangs on a few points where neighbours on the contour almost coincide: "
        why += f"the median of the runs' means is {median(runs):.3g}"
    return Claim(
        f"mean curvature, {record.settings['label']}",
        f"{paper:g}",
        f"{mean:.3g}{spread} ({count})",
        verdict,
        why,
    )


EXPERIMENT = Experiment(
    name=NAME,
    title="curvature of the boundaries of the two-turn spiral's classifiers",
    source="table 1",
    scales=spiral.SCALES,
    jobs=jobs,
    run=run,
    figures=figures,
    table=table,
    claims=claims,
    note="The networks of spiral-classifiers where they are in the same output directory.",
    times={"smoke": "5 s", "laptop": "1 min", "full": "10 min"},
)
