"""Curvatures of boundaries beside the paper's numbers, for table 1 and table 4.5."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean, median, quantiles
from typing import TypeAlias

from colangevin.diagnostics.boundary import NONE, Curvature
from colangevin.lab import kit

Numbers: TypeAlias = tuple[float, float, float]
"""Mean, standard deviation and largest curvature, as the paper's tables have them."""

NOTE = (
    "Where a contour begins, ends or turns close to a point of the grid, its points almost "
    "coincide and (4.60) grows as 1 / distance²: the share of points above a curvature c "
    "falls as 1 / √c, also for a smooth boundary, and such a distribution has no mean. Means, "
    "standard deviations and largest values then depend on chance, on the number of runs, and on "
    "the grid: its extent of [-1.2, 1.2]² is ours. The tail index in the table (Hill's estimator "
    "from the runs' largest values) has to be above 1 for a mean to exist. So the runs' mean "
    "curvatures are compared one by one, by a sign test, and shown by median and quartiles. "
    "Standard deviations of all points together are at least max / √points, which for the about "
    "5,000 points of a run and 100 runs is 2 to 10 times what the paper has"
)
WHY = "single points and the grid make these numbers; medians and quartiles are in the table"


def runs_of(record: kit.Record) -> list[Curvature]:
    """The curvature of every run that has a boundary.

    Example:
        >>> found = {"curvature": [[2, 3.0, 5.0, 2.0], [0, 0.0, 0.0, 0.0]]}
        >>> [run.mean for run in runs_of(kit.Record("a", "b", 0, {}, final=found))]
        [1.5]
    """
    return [run for run in _all_runs(record) if run.points]


def _all_runs(record: kit.Record) -> list[Curvature]:
    return [Curvature(int(points), *sums) for points, *sums in record.final.get("curvature", [])]


def total(runs: list[Curvature]) -> Curvature:
    """All points of all runs together."""
    return sum(runs, start=NONE)


def typical(record: kit.Record) -> float:
    """The median of the runs' mean curvatures, which a few points cannot make; NaN without runs."""
    means = [run.mean for run in runs_of(record)]
    return median(means) if means else math.nan


def tail_index(values: list[float]) -> float:
    """Hill's estimate of a in P(value > v) ∝ v⁻ᵃ, from the largest fifth; NaN if that is < 2.

    Example:
        >>> exact = [(n / 100) ** -2.0 for n in range(1, 101)]  # a = 1/2
        >>> round(tail_index(exact), 2)
        0.54
    """
    count = len(values) // 5
    largest = sorted(values, reverse=True)[: count + 1]
    if count < 2 or largest[-1] <= 0:
        return math.nan
    return count / sum(math.log(value / largest[-1]) for value in largest[:-1])


COLUMNS = ["median of the runs' mean curvatures", "quartiles", "mean of all points"]
COLUMNS += ["std of all points", "mean of the runs' std", "max", "tail index"]
COLUMNS += ["paper: mean", "std", "max"]


def cells(record: kit.Record, paper: Numbers) -> list[str]:
    """What the columns of ``COLUMNS`` have for a record."""
    runs = runs_of(record)
    theirs = [f"{value:.3g}" for value in paper]
    if not runs:
        return ["–"] * (len(COLUMNS) - len(theirs)) + theirs
    whole, tail = total(runs), tail_index([run.largest for run in runs])
    means = [run.mean for run in runs]
    quarters = quantiles(means, n=4, method="inclusive") if len(means) > 1 else means * 3
    within = fmean(run.deviation for run in runs)
    ours = [f"{typical(record):.3g}", f"{quarters[0]:.3g} to {quarters[2]:.3g}"]
    ours += [f"{v:.3g}" for v in (whole.mean, whole.deviation, within, whole.largest)]
    return [*ours, "–" if math.isnan(tail) else f"{tail:.2f}", *theirs]


def numbers(records: Mapping[str, kit.Record], paper: Mapping[str, Numbers]) -> kit.Claim:
    """All numbers of the paper's table in one sentence: no run can tell."""
    named = [records[job].settings["label"] for job in paper if job in records]
    source = ", ".join(f"{paper[job][0]:g}" for job in paper if job in records)
    ours = ", ".join(f"{total(runs_of(records[job])).mean:.3g}" for job in paper if job in records)
    text = f"mean curvature of all points, with standard deviations and maxima: {', '.join(named)}"
    return kit.Claim(text, source, ours, number=kit.Answer(kit.NOT_COMPARABLE, WHY))


def less(best: kit.Record, others: Sequence[kit.Record]) -> kit.Claim:
    """The claim that a method has the lowest curvature: the runs' means, one by one."""
    methods = [
        kit.Measured(record.label, [run.mean for run in _all_runs(record)])
        for record in (best, *others)
    ]
    claim = kit.ahead("mean curvature of a run", methods[0], methods[1:], sign=-1, exact=True)
    listed = "; ".join(f"{r.settings['label']} {typical(r):.3g}" for r in (best, *others))
    return replace(claim, ours=f"medians: {listed}")
