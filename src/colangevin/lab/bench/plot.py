"""The picture: ratios by work, and scaling with fitted powers."""

from __future__ import annotations

import itertools
import textwrap
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from colangevin.lab.bench.presenting import sections
from colangevin.lab.bench.record import Record, Row
from colangevin.lab.bench.sampling_rates import LETTER
from colangevin.lab.bench.scaling import LINEAR_FROM

OURS = "#b2182b"
PEERS = "#9aa5b1"
OUR_LINES = ("#b2182b", "#ef8a62", "#7a0177")
LINES = ("#2166ac", "#636363", "#d6a04d")


def draw(record: Record) -> Figure:
    """Draw all works of a record; the figure belongs to no window and needs no display."""
    parts = [part for part in sections(record) if part[0] != LETTER]  # rates have tables alone
    flat = [part for part in parts if part[2][0].x is None]
    scaled = [part for part in parts if part[2][0].x is not None]
    columns = 2
    panels = flat + scaled
    lines = max(1, -(-len(panels) // columns))
    figure = Figure(figsize=(15.0, 4.3 * lines))
    figure.set_layout_engine("constrained")
    axes = figure.subplots(lines, columns, squeeze=False).ravel()
    for place, (letter, title, rows) in zip(axes, panels, strict=False):
        place.set_title(textwrap.fill(f"({letter}) {title}", 76), fontsize=9, loc="left")
        if rows[0].x is None:
            _draw_ratios(place, rows)
        else:
            _draw_scaling(place, rows, record.slopes.get(rows[0].series, {}))
    for place in axes[len(panels) :]:
        place.set_axis_off()
    return figure


def save(record: Record, path: Path) -> None:
    """Write the picture."""
    draw(record).savefig(path, dpi=90)


def _draw_ratios(axes: Axes, rows: list[Row]) -> None:
    """Bars from 1: to the right slower, to the left faster than the baseline."""
    shown = [row for row in rows if row.ratio is not None][::-1]
    ratios = [row.ratio or 1.0 for row in shown]
    colours = [OURS if row.ours else PEERS for row in shown]
    places = list(range(len(shown)))
    axes.barh(places, [ratio - 1.0 for ratio in ratios], left=1.0, color=colours)
    axes.set_yticks(places, [row.label for row in shown], fontsize=8)
    axes.set_xscale("log")
    axes.axvline(1.0, color="black", linewidth=0.8)
    for place, (row, ratio) in enumerate(zip(shown, ratios, strict=True)):
        note = f" {'~' if row.estimated else ''}{ratio:.3g} "
        axes.annotate(note, (ratio, place), va="center", ha="left" if ratio >= 1 else "right",
                      fontsize=8)  # fmt: skip
    low, high = min(0.5, *ratios) if ratios else 0.5, max(2.0, *ratios) if ratios else 2.0
    axes.set_xlim(low / 3.0, high * 3.0)
    # Two decades or less need more than powers of ten, and many decades have no room for more.
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high < 100 * low else (1.0,)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    bases = sorted({row.baseline for row in shown if row.baseline})
    axes.set_xlabel("time over that of " + " / ".join(bases), fontsize=8)


def _draw_scaling(axes: Axes, rows: list[Row], slopes: dict[str, float]) -> None:
    labels = list(dict.fromkeys(row.label for row in rows))
    ours = {row.label for row in rows if row.ours}
    colours = {True: itertools.cycle(OUR_LINES), False: itertools.cycle(LINES)}
    for label in labels:
        colour = next(colours[label in ours])
        points = [(row.x or 1.0, row.seconds) for row in rows if row.label == label and row.seconds]
        if not points:
            continue
        xs, ys = zip(*points, strict=True)
        power = f": power {slopes[label]:.2f}" if label in slopes else ""
        axes.plot(xs, [1e3 * y for y in ys], "o-", color=colour, label=label + power)
    axes.axvline(LINEAR_FROM[rows[0].series], color="black", linewidth=0.6, linestyle=":")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel(rows[0].series + " (powers fitted to the right of the dotted line)", fontsize=8)
    axes.set_ylabel("ms per step", fontsize=8)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
