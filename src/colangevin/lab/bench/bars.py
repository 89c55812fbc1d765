"""The figures to be reached, and what a run says of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from colangevin.lab.bench import sampling_rates, scaling, seeds, works
from colangevin.lab.bench.record import Bar, Record, Row

VIOLATION = 1e-6
STEPS = 1000
FIRST_STEP = 1.0


def judge(record: Record) -> list[Bar]:
    """All bars that belong to the works of the run."""
    found = [*_circle(record), *_orthogonal(record), *_small(record), *_training(record)]
    found += [*_memory(record), *_scaling(record), *_seeds(record), *_sampling(record)]
    found.append(_violation(record))
    return [bar for bar in found if bar.work in ("", *record.works)]


def _at_most(work: str, text: str, limit: float, measured: float | None, aim: str = "") -> Bar:
    met = None if measured is None else measured <= limit
    return Bar(work, text, limit, measured, aim, met)


def _at_least(work: str, text: str, limit: float, measured: float | None) -> Bar:
    met = None if measured is None else measured >= limit
    return Bar(work, text, limit, measured, met=met, least=True)


class Table:
    """The rows of a work by label.

    Args:
        rows: rows of one work, or of one series of it.
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

    def first(self, *labels: str) -> float | None:
        """The longest first step of rows."""
        rows = [self._rows[label] for label in labels if label in self._rows]
        return max((row.first for row in rows if row.first is not None), default=None)

    def violation(self, label: str) -> str:
        """The violation of a row and after how many steps, or nothing."""
        row = self._rows.get(label)
        if row is None or row.violation is None:
            return ""
        return f"{row.violation:.0e} after {row.steps:,} steps"


def _circle(record: Record) -> list[Bar]:
    table = Table(record.of_work("a"))
    ratio = table.ratio
    first = table.first(works.CIRCLE, works.OVERDAMPED, works.NOISY)
    to_momentum, to_sgd = "to fused SGD with momentum", "to fused SGD"
    noisy = "circle at τ > 0, to its τ = 0 step and `normal_` together"
    return [
        _at_most("a", f"circle, {to_momentum}", 1.3, ratio(works.CIRCLE, works.SGD_MOMENTUM)),
        _at_most("a", f"circle overdamped, {to_sgd}", 1.8, ratio(works.OVERDAMPED, works.SGD)),
        _at_most(
            "a",
            f"circle without kernels, {to_momentum}",
            10.0,
            ratio(works.CIRCLE_EAGER, works.SGD_MOMENTUM),
        ),
        _at_most("a", noisy, 0.35, ratio(works.NOISY, works.CIRCLE, works.DRAW)),
        _at_most("a", "first step of a circle optimizer, seconds", FIRST_STEP, first),
    ]


def _orthogonal(record: Record) -> list[Bar]:
    table = Table(record.of_work("b"))
    ours = works.ORTHOGONAL
    text = f"orthogonal to geoopt Euclidean{_violated(table, ours)}"
    printed = "orthogonal to the printed formulas with K = 10"
    return [
        _at_most("b", text, 0.42, table.ratio(ours, works.EUCLIDEAN)),
        _at_most("b", printed, 0.2, table.ratio(ours, works.LITERAL)),
    ]


def _small(record: Record) -> list[Bar]:
    """Many small matrices, as one tensor and as many, and one alone."""
    rows = record.of_work("c")
    many = Table([row for row in rows if not row.series])
    one = Table([row for row in rows if row.series])
    theirs = many.violation(works.POGO_STACKED)
    other = f" (POGO's: {theirs})" if theirs else ""
    found = []
    for label, layout, limit in (
        (works.ORTHOGONAL_STACKED, "one stacked tensor", 0.9),
        (works.ORTHOGONAL, "separate tensors", 1.0),
    ):
        text = f"orthogonal, {layout}, to POGO on a stacked one{_violated(many, label)}{other}"
        found.append(_at_most("c", text, limit, many.ratio(label, works.POGO_STACKED)))
    ratio = one.ratio(works.ORTHOGONAL, works.POGO)
    return [*found, _at_most("c", "orthogonal, one matrix alone, to POGO on the same", 1.0, ratio)]


def _violated(table: Table, label: str) -> str:
    found = table.violation(label)
    return f", at violation {found}" if found else ""


def _training(record: Record) -> list[Bar]:
    rows = record.of_work("e")
    found = []
    for name, label, kind, limit in (
        ("784", works.CIRCLE, "circle", 1.05),
        ("ResNet", works.ORTHOGONAL, "orthogonal", 1.5),
    ):
        table = Table([row for row in rows if row.series.startswith(name)])
        series = next((row.series for row in rows if row.series.startswith(name)), name)
        text = f"whole training step, {series}, {kind}, to the same with fused SGD"
        found.append(_at_most("e", text, limit, table.ratio(label, works.SGD_MOMENTUM)))
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
        _at_most("a", "extra state of the circle, floats per weight", 2.0, circle),
        _at_most("b", "extra state of an orthogonal weight, floats per weight", 1.0, matrix),
        _at_most("a", "scratch of the circle, over its largest batch", 1.0, elementwise),
        _at_most("b", "scratch of orthogonal steps, over the largest batch", 1.0, batched),
    ]


def _scaling(record: Record) -> list[Bar]:
    circle = record.slopes.get(scaling.PARAMETERS, {}).get(works.CIRCLE)
    side = record.slopes.get(scaling.SIDE, {}).get(works.ORTHOGONAL)
    count = record.slopes.get(scaling.COUNT, {}).get(works.ORTHOGONAL)
    return [
        _at_most("f", "power of the number of circle-constrained weights", 1.1, circle),
        _at_most("f", "power of the side of an orthogonal matrix", 3.1, side),
        _at_most("f", "power of the number of orthogonal matrices", 1.1, count),
    ]


def _seeds(record: Record) -> list[Bar]:
    """How many times faster than a loop an ensemble is, where all of its kinds are measured."""
    rows = [row for row in record.rows if row.series == seeds.SERIES]
    count = next((row.x for row in rows if row.label == seeds.NOISY), None)
    table = Table([row for row in rows if row.x == count])
    found = []
    for label, loop, limit in (
        (seeds.ENSEMBLE, seeds.LOOP, 150.0),
        (seeds.NOISY, seeds.LOOP, 60.0),
        (seeds.ADLALA, seeds.ADLALA_LOOP, 20.0),
    ):
        text = f"{count or 100:.0f} seeds, {label}: times faster than {loop}"
        found.append(_at_least("g", text, limit, table.ratio(loop, label)))
    return found


def _sampling(record: Record) -> list[Bar]:
    """Effective samples per second over those of others, among rows without bias."""
    laws: dict[str, list[Row]] = {}
    for row in record.of_work(sampling_rates.LETTER):
        laws.setdefault(row.series, []).append(row)
    found = []
    peers = (sampling_rates.MICI, 30.0), (sampling_rates.OLLA, 3.0), (sampling_rates.NUTS, 2.0)
    for name, limit in peers:
        for law, rows in laws.items():
            theirs = [row for row in rows if sampling_rates.whose(row, name)]
            if theirs:
                first = sampling_rates.best([row for row in rows if row.ours])
                second = sampling_rates.best(theirs)
                text = f"{law}: effective samples per second, times those of {name}"
                if second is None and any(row.bias is not None for row in theirs):
                    text += " (all of its rows are biased)"
                measured = _times(first, second)
                found.append(_at_least(sampling_rates.LETTER, text, limit, measured))
    return found


def _times(first: Row | None, second: Row | None) -> float | None:
    above = None if first is None else sampling_rates.rate(first)
    below = None if second is None else sampling_rates.rate(second)
    return above / below if above and below else None


def _violation(record: Record) -> Bar:
    steps = [row for row in record.rows if row.work != sampling_rates.LETTER]
    record = replace(record, rows=steps)
    worst = _largest(record, lambda row: True, lambda row: row.violation)
    text = f"largest violation in any row of this library after {STEPS:,} steps"
    early = [row.steps for row in record.rows if row.ours and row.violation and row.steps < STEPS]
    if early:
        # A bar must not look better than the run was long.
        text += f" ({len(early)} rows ran out of time before, the first after {min(early)})"
    return _at_most("", text, VIOLATION, worst)
