"""The figures to be reached, and what a run says of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from colangevin.lab.bench import scaling, seeds, works
from colangevin.lab.bench.record import Bar, Record, Row

VIOLATION = 1e-6
STEPS = 1000

CALLS = (
    "each of the three buckets takes a call, which together cost about as much time as half of "
    "SGD's step or more"
)
WHY = {
    "fused": (
        "the kernel has about 21 operations a weight, one of them a division, where SGD has 4 "
        "(with its seven streams of memory but little arithmetic it would be as fast as SGD); "
        + CALLS
    ),
    "eager": (
        "eager code makes 27 passes over a block, each with a call of its own, where fused SGD "
        "makes one"
    ),
    "overdamped": "the kernel has a division and a square root where SGD has neither; " + CALLS,
    "noise": "the normals are drawn by `normal_` and read again by the step",
    "products": (
        "the s × s iterations and the copies into and out of the batch come on top of three "
        "large products"
    ),
    "small": (
        "two to three s × s iterations, of five small operations each, come on top of three "
        "products; separate tensors are copied into a batch and back as well"
    ),
    "training": "the optimizer's share of the step is larger than the bar allows",
    "blocks": (
        "with noise the fused step keeps up to 524,288 normals and the batch of the small "
        "parameters; eager code holds about six temporaries of one block (114,688 numbers) at a "
        "time, however large the network is"
    ),
    "scratch": (
        "a step holds one proposal of the bucket's size and then five s × s matrices, which are "
        "2.5 buckets where the weights are twice as long as wide; separate small matrices and "
        "their gradients are copied into a batch as well"
    ),
    "state": "more is kept between steps than the constraint asks for",
    "cache": "small sizes fit into the cache and large ones do not, so that time grows faster "
    "than the size in between; SGD shows the same",
    "seeds": "the loop's networks are small enough for the cache, the ensemble's are not",
    "violation": "float32 rounding, or too few iterations",
}


def judge(record: Record) -> list[Bar]:
    """All bars that belong to the works of the run."""
    found = [*_circle(record), *_orthogonal(record), *_training(record), *_memory(record)]
    found += [*_scaling(record), *_seeds(record), _violation(record)]
    return [bar for bar in found if bar.work in ("", *record.works)]


def _bar(
    work: str, text: str, limit: float, measured: float | None, why: str, aim: str = ""
) -> Bar:
    met = None if measured is None else measured <= limit
    return Bar(work, text, limit, measured, aim, met, WHY[why] if met is False else "")


class Table:
    """The rows of a work by label.

    Args:
        rows: rows of one work.
    """

    def __init__(self, rows: Sequence[Row]) -> None:
        self._rows = {row.label: row for row in rows}

    def ratio(self, label: str, *to: str) -> float | None:
        """The time of a row over the summed times of others."""
        seconds = [self.seconds(name) for name in (label, *to)]
        if None in seconds:
            return None
        above, *below = [value for value in seconds if value is not None]
        return above / sum(below)

    def seconds(self, label: str) -> float | None:
        """The time of a row, unless it was estimated."""
        row = self._rows.get(label)
        return None if row is None or row.estimated else row.seconds

    def violation(self, label: str) -> str:
        """The violation of a row and after how many steps, or nothing."""
        row = self._rows.get(label)
        if row is None or row.violation is None:
            return ""
        return f"{row.violation:.0e} after {row.steps:,} steps"


def _circle(record: Record) -> list[Bar]:
    table = Table(record.of_work("a"))
    noisy = table.ratio(works.NOISY_FUSED, works.CIRCLE_FUSED, works.DRAW)
    to_draw = table.ratio(works.NOISY_FUSED, works.DRAW)
    aim = "below the draw alone"
    if to_draw is not None:
        aim += f" ({to_draw:.2f} of it)"
    return [
        _bar(
            "a",
            "circle, fused, to fused SGD with momentum",
            2.5,
            table.ratio(works.CIRCLE_FUSED, works.SGD_MOMENTUM),
            "fused",
            "1.5",
        ),
        _bar(
            "a",
            "circle, eager, to fused SGD with momentum",
            8.0,
            table.ratio(works.CIRCLE_EAGER, works.SGD_MOMENTUM),
            "eager",
        ),
        _bar(
            "a",
            "circle overdamped, fused, to fused SGD",
            2.0,
            table.ratio(works.OVERDAMPED_FUSED, works.SGD),
            "overdamped",
        ),
        _bar(
            "a",
            "circle at τ > 0, fused, to its τ = 0 step and `normal_` together",
            1.2,
            noisy,
            "noise",
            aim,
        ),
    ]


def _orthogonal(record: Record) -> list[Bar]:
    kernels, small = Table(record.of_work("b")), Table(record.of_work("c"))
    ours = works.ORTHOGONAL
    held = _violated(kernels, ours)
    found = [
        _bar(
            "b",
            f"orthogonal to geoopt Euclidean{held}",
            0.6,
            kernels.ratio(ours, works.EUCLIDEAN),
            "products",
        ),
        _bar(
            "b",
            "orthogonal to the printed formulas with K = 10",
            0.2,
            kernels.ratio(ours, works.LITERAL),
            "products",
        ),
    ]
    theirs = small.violation(works.POGO_STACKED)
    other = f" (POGO's: {theirs})" if theirs else ""
    for label in (works.ORTHOGONAL_STACKED, works.ORTHOGONAL):
        layout = "one stacked tensor" if label == works.ORTHOGONAL_STACKED else "separate tensors"
        text = f"orthogonal, {layout}, to POGO on a stacked one{_violated(small, label)}{other}"
        ratio = small.ratio(label, works.POGO_STACKED)
        found.append(_bar("c", text, 1.0, ratio, "small"))
    return found


def _violated(table: Table, label: str) -> str:
    found = table.violation(label)
    return f", at violation {found}" if found else ""


def _training(record: Record) -> list[Bar]:
    rows = record.of_work("e")
    found = []
    for name, label, limit in (
        ("784", works.CIRCLE_FUSED, 1.10),
        ("ResNet", works.ORTHOGONAL, 1.5),
    ):
        table = Table([row for row in rows if row.series.startswith(name)])
        kind = "circle, fused" if label == works.CIRCLE_FUSED else "orthogonal"
        series = next((row.series for row in rows if row.series.startswith(name)), name)
        text = f"whole training step, {series}, {kind}, to the same with fused SGD"
        ratio = table.ratio(label, works.SGD_MOMENTUM)
        found.append(_bar("e", text, limit, ratio, "training"))
    return found


def _largest(
    record: Record, choose: Callable[[Row], bool], value: Callable[[Row], float | None]
) -> float | None:
    values = [value(row) for row in record.rows if row.ours and choose(row)]
    known = [found for found in values if found is not None]
    return max(known) if known else None


def _memory(record: Record) -> list[Bar]:
    circle = _largest(record, lambda r: r.work == "a", lambda r: r.state)
    matrix = _largest(record, lambda r: r.work in "bc", lambda r: r.state)
    elementwise = _largest(record, lambda r: r.work == "a", lambda r: r.scratch_share)
    batched = _largest(record, lambda r: r.work in "bc", lambda r: r.scratch_share)
    return [
        _bar("a", "extra state of the circle, floats a weight", 2.0, circle, "state"),
        _bar("b", "extra state of an orthogonal weight, floats a weight", 1.0, matrix, "state"),
        _bar("a", "scratch of the circle, over its largest bucket", 1.0, elementwise, "blocks"),
        _bar("b", "scratch of orthogonal steps, over the largest bucket", 1.0, batched, "scratch"),
    ]


def _scaling(record: Record) -> list[Bar]:
    fused = record.slopes.get(scaling.PARAMETERS, {}).get(works.CIRCLE_FUSED)
    side = record.slopes.get(scaling.SIDE, {}).get(works.ORTHOGONAL)
    count = record.slopes.get(scaling.COUNT, {}).get(works.ORTHOGONAL)
    return [
        _bar("f", "power of the number of circle-constrained weights", 1.1, fused, "cache"),
        _bar("f", "power of the side of an orthogonal matrix", 3.1, side, "cache"),
        _bar("f", "power of the number of orthogonal matrices", 1.1, count, "cache"),
    ]


def _seeds(record: Record) -> list[Bar]:
    """How much faster than a loop an ensemble is, at the number of seeds that has noise as well."""
    rows = [row for row in record.rows if row.series == seeds.SERIES]
    count = next((row.x for row in rows if row.label == seeds.NOISY), None)
    found = []
    for label, limit in ((seeds.ENSEMBLE, 1 / 30), (seeds.NOISY, 1 / 15)):
        ratio = next((row.ratio for row in rows if row.label == label and row.x == count), None)
        text = f"{count or 100:.0f} seeds, {label}, to {seeds.LOOP} (1/{1 / limit:.0f})"
        found.append(_bar("g", text, limit, ratio, "seeds"))
    return found


def _violation(record: Record) -> Bar:
    worst = _largest(record, lambda row: True, lambda row: row.violation)
    text = f"largest violation in any row of this library after {STEPS:,} steps"
    early = [row.steps for row in record.rows if row.ours and row.violation and row.steps < STEPS]
    if early:
        # A bar must not look better than the run was long.
        text += f" ({len(early)} rows ran out of time before, the first after {min(early)})"
    return _bar("", text, VIOLATION, worst, "violation")
