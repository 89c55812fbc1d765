"""Curvatures of boundaries beside the paper's numbers, for table 1 and table 4.5."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from statistics import fmean, median, stdev
from typing import NamedTuple, TypeAlias

from colangevin.diagnostics.boundary import NONE, Curvature
from colangevin.lab.experiments.comparing import Measured, ahead
from colangevin.lab.experiments.experiment import NOT_REPRODUCED, ORDERING, REPRODUCED, Claim
from colangevin.lab.experiments.records import Record

Numbers: TypeAlias = tuple[float, float, float]
"""Mean, standard deviation and largest curvature, as the paper's tables have them."""

NEAR = 1.25
"""A number within this factor of the paper's counts as the same number."""
NOTE = (
    "Where a contour begins, ends or turns close to a point of the grid, its points almost "
    "coincide and (4.60) grows as 1 / distance²: the share of points above a curvature c "
    "falls as 1 / √c, also for a smooth boundary, and such a distribution has no mean. Means, "
    "standard deviations and largest values then depend on chance and on the number of runs; the "
    "tail index in the table (Hill's estimator from the runs' largest values) has to be above 1 "
    "for a mean to exist. The medians of the runs' means can be compared. The paper's standard "
    "deviations are compared with the mean of the runs' standard deviations: those of all points "
    "together are at least max / √points, which for the about 5,000 points of a run and 100 runs "
    "is 2 to 10 times what the paper has."
)


class Quantity(NamedTuple):
    """A column of the paper's tables: its value for one run, and for all of them."""

    label: str
    of_run: Callable[[Curvature], float]
    of_all: Callable[[list[Curvature]], float]
    of_one_point: bool = False


QUANTITIES = (
    Quantity("mean curvature", lambda run: run.mean, lambda runs: total(runs).mean),
    Quantity(
        "standard deviation of the curvature",
        lambda run: run.deviation,
        lambda runs: fmean(run.deviation for run in runs),
    ),
    Quantity("largest curvature", lambda run: run.largest, lambda runs: total(runs).largest, True),
)


def runs_of(record: Record) -> list[Curvature]:
    """The curvature of every run that has a boundary.

    Example:
        >>> found = {"curvature": [[2, 3.0, 5.0, 2.0], [0, 0.0, 0.0, 0.0]]}
        >>> [run.mean for run in runs_of(Record("a", "b", 0, {}, final=found))]
        [1.5]
    """
    return [run for run in _all_runs(record) if run.points]


def _all_runs(record: Record) -> list[Curvature]:
    return [Curvature(int(points), *sums) for points, *sums in record.final.get("curvature", [])]


def total(runs: list[Curvature]) -> Curvature:
    """All points of all runs together."""
    return sum(runs, start=NONE)


def typical(record: Record) -> float:
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


COLUMNS = ["curvature: mean", "std of all points", "mean of the runs' std", "max", "tail index"]
COLUMNS += ["median of the runs' means", "paper: mean", "std", "max"]


def cells(record: Record, paper: Numbers) -> list[str]:
    """What the columns of ``COLUMNS`` have for a record."""
    runs = runs_of(record)
    theirs = [f"{value:.3g}" for value in paper]
    if not runs:
        return ["–"] * (len(COLUMNS) - len(theirs)) + theirs
    whole, within = total(runs), QUANTITIES[1].of_all(runs)
    tail = tail_index([run.largest for run in runs])
    ours = [f"{v:.3g}" for v in (whole.mean, whole.deviation, within, whole.largest)]
    ours += ["–" if math.isnan(tail) else f"{tail:.2f}", f"{typical(record):.3g}"]
    return ours + theirs


def claims(records: Mapping[str, Record], paper: Mapping[str, Numbers]) -> list[Claim]:
    """Every number of the paper's table, for the jobs that have a boundary."""
    runs = {job: runs_of(records[job]) for job in paper if job in records}
    runs = {job: found for job, found in runs.items() if found}
    result = []
    for place, quantity in enumerate(QUANTITIES):
        theirs = {job: paper[job][place] for job in runs}
        ours = {job: quantity.of_all(found) for job, found in runs.items()}
        order = sorted(theirs, key=lambda job: theirs[job])
        ordered = all(ours[a] < ours[b] for a, b in pairwise(order))
        result += [_claim(records[job], quantity, theirs[job], ours[job], ordered) for job in runs]
    return result


def least(best: Record, others: Sequence[Record]) -> Claim:
    """The claim that a method has the lowest mean curvature, by the runs' means."""
    methods = [
        Measured(record.settings["label"], [run.mean for run in _all_runs(record)])
        for record in (best, *others)
    ]
    claim = ahead("mean curvature of a run", methods[0], methods[1:], sign=-1)
    listed = "; ".join(f"{r.settings['label']} {typical(r):.3g}" for r in (best, *others))
    return replace(claim, why="; ".join(filter(None, (claim.why, f"medians: {listed}"))))


def _claim(record: Record, quantity: Quantity, paper: float, ours: float, ordered: bool) -> Claim:
    each = [quantity.of_run(run) for run in runs_of(record)]
    near = paper / NEAR <= ours <= paper * NEAR
    verdict = REPRODUCED if near else ORDERING if ordered else NOT_REPRODUCED
    count = f"{len(each)} run{'s' if len(each) > 1 else ''}"
    several = len(each) > 1 and not quantity.of_one_point
    spread = f" ± {stdev(each):.2g} between runs" if several else ""
    one = "one point makes it; " if quantity.of_one_point else ""
    why = "" if near else f"{one}the median of the runs is {median(each):.3g}"
    name = f"{quantity.label}, {record.settings['label']}"
    return Claim(name, f"{paper:g}", f"{ours:.3g}{spread} ({count})", verdict, why)
