"""The work (f): how the time of a step grows with the size."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import replace

from colangevin.lab.bench import peers, seeds, works
from colangevin.lab.bench.contestant import Weight
from colangevin.lab.bench.ours import cola
from colangevin.lab.bench.record import Row
from colangevin.lab.bench.timing import Effort
from colangevin.lab.bench.works import Entry, Sizes, Work

PARAMETERS = "number of circle-constrained weights"
SIDE = "side of one square orthogonal matrix"
COUNT = "number of orthogonal matrices of 64 × 32"
LINEAR_FROM = {PARAMETERS: 10**6, SIDE: 256, COUNT: 64, seeds.SERIES: 100}
"""Where the fit begins: below, the cost of a call hides that of the numbers."""
FLOATS = 16
"""Floats a weight that all contestants need together, and some room."""


def work_f(sizes: Sizes) -> list[Work]:
    """One work per size."""
    title = "scaling"
    found = []
    for count in sizes.parameters:
        if count * 4 * FLOATS > memory():
            continue
        entries = [
            Entry(works.SGD_MOMENTUM, peers.sgd(momentum=True)),
            Entry(works.CIRCLE, cola(), ours=True),
            Entry(works.CIRCLE_EAGER, cola(fused=False), ours=True),
        ]
        weights = [Weight((count,), "circle")]
        found.append(Work("f", title, weights, entries, series=PARAMETERS, x=count))
    for side in sizes.sides:
        to = (works.EUCLIDEAN, works.SGD_MOMENTUM)
        entries = [
            Entry(works.SGD_MOMENTUM, peers.sgd(momentum=True), to),
            Entry(works.EUCLIDEAN, peers.geoopt(canonical=False), to),
            Entry(works.ORTHOGONAL, cola(), to, ours=True),
        ]
        weights = [Weight((side, side), "orthogonal")]
        found.append(Work("f", title, weights, entries, series=SIDE, x=side))
    for count in sizes.counts:
        to = (works.POGO_STACKED, works.SGD_MOMENTUM)
        entries = [
            Entry(works.SGD_MOMENTUM, peers.sgd(momentum=True), to),
            Entry(works.POGO_STACKED, peers.pogo(), to, stacked=True),
            Entry(works.ORTHOGONAL, cola(), to, ours=True),
        ]
        weights = [Weight((64, 32), "orthogonal")] * count
        found.append(Work("f", title, weights, entries, lr=0.5, series=COUNT, x=count))
    return found


def memory() -> float:
    """Bytes of memory that are free, or infinity where that is not known."""
    try:
        return float(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, OSError, ValueError):
        return math.inf


def shorter(effort: Effort) -> Effort:
    """Many sizes: less time for each."""
    return replace(
        effort,
        rounds=min(3, effort.rounds),
        seconds=effort.seconds / 2,
        ours_seconds=effort.ours_seconds / 3,
        peers_seconds=effort.peers_seconds / 10,
    )


def slopes(rows: Sequence[Row]) -> dict[str, dict[str, float]]:
    """The power p of time ~ size^p, by series and contestant, fitted to the larger sizes."""
    points: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for row in rows:
        if row.x is not None and row.seconds is not None:
            points.setdefault((row.series, row.label), []).append((row.x, row.seconds))
    found: dict[str, dict[str, float]] = {}
    for (series, label), pairs in points.items():
        large = [pair for pair in pairs if pair[0] >= LINEAR_FROM[series]]
        chosen = large if len(large) > 1 else pairs
        if len(chosen) > 1:
            found.setdefault(series, {})[label] = fit(chosen)
    return found


def fit(points: Sequence[tuple[float, float]]) -> float:
    """Least squares slope of log y against log x.

    Example:
        >>> round(fit([(1.0, 2.0), (10.0, 200.0)]), 6)
        2.0
    """
    xs = [math.log(x) for x, _ in points]
    ys = [math.log(y) for _, y in points]
    middle = sum(xs) / len(xs)
    spread = sum((x - middle) ** 2 for x in xs)
    return sum((x - middle) * y for x, y in zip(xs, ys, strict=True)) / spread
