"""What the records of loss-paths show, and what the thesis states about it."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from colangevin.diagnostics import LossPath
from colangevin.lab import kit

TITLES = {
    "methods-mnist": "MNIST, 100 nodes",
    "methods-one": "one turn, 20 nodes",
    "methods-two": "two turns, 20 nodes",
    "methods-trigonometric": "trigonometric, 20 nodes",
    "starts-mnist": "MNIST, 50-50",
    "starts-spiral": "two turns, 50-50",
    "layers-narrow": "six layers, narrow",
    "layers-wide": "six layers, wide",
    "layers-mixed": "six layers, wide, then narrow",
}
WITHOUT = ("monotone", "plateau")
"""Shapes without a barrier; a line whose losses are not finite is none of them."""
WORDS = {"adam": "Adam", "adlala": "AdLaLa"}


def by_line(paths: Mapping[str, LossPath]) -> dict[str, Any]:
    """For each line the losses of every run, with shape, height and place of the barrier."""
    found: dict[str, Any] = {}
    for key, path in paths.items():
        line = key.rpartition("/")[0]
        own = found.setdefault(line, {"losses": [], "shape": [], "height": [], "alpha": []})
        own["losses"].append(path.losses.tolist())
        own["shape"].append(path.shape)
        own["height"].append(path.barrier.height)
        own["alpha"].append(path.barrier.alpha)
    return found


def part(records: kit.Records, name: str) -> kit.Figure | None:
    """The lines of the jobs of a part."""
    chosen = records.named(f"{name}-*")
    if not chosen:
        return None
    figure, axes = kit.panels((5.0 * len(chosen), 3.9), 1, len(chosen))
    for axis, record in zip(axes, chosen, strict=True):
        draw_lines(axis, {WORDS.get(line, line): own for line, own in record.at("paths").items()})
        axis.set_title(TITLES[record.job])
    kit.say_bands(figure)
    return figure


def draw_lines(axis: Any, paths: Mapping[str, Mapping[str, Any]]) -> None:
    """Draw losses along lines by name, means over the runs; the whole network is black."""
    kit.plain_logarithms(axis)
    looks = itertools.product(kit.STYLES, kit.COLORS)
    for name, own in paths.items():
        losses = np.array(own["losses"], dtype=float).T
        alphas = np.linspace(0, 1, len(losses)).tolist()
        dashes, color = ("--", "black") if name in ("all", "whole") else next(looks)
        kit.band(axis, alphas, losses, color=color, label=name, linestyle=dashes)
    axis.set(xlabel="α: from start to end", ylabel="test loss")
    axis.grid(alpha=0.3)
    axis.legend(fontsize="x-small")


def surfaces(records: kit.Records) -> kit.Figure | None:
    """The loss on planes through two solutions."""
    shown = [record for record in records.values() if record.final.get("surface")]
    if not shown:
        return None
    figure, axes = kit.panels((5.0 * len(shown), 4.0), 1, len(shown))
    for axis, record in zip(axes, shown, strict=True):
        heights = np.array(record.at("surface/heights"), dtype=float)
        places = np.linspace(0, 1, len(heights))
        lines = axis.contourf(places, places, heights, levels=20, cmap="viridis")
        figure.colorbar(lines, ax=axis, label="test loss, first run")
        sides = "β: from one of Adam's solutions to another"
        axis.set(xlabel="α: from start to end", ylabel=sides, title=TITLES[record.job])
    return figure


def shapes(own: Mapping[str, Any]) -> str:
    """How many runs have which shape, such as ``2 monotone, 1 barrier``.

    Example:
        >>> shapes({"shape": ["barrier", "monotone", "monotone"]})
        '2 monotone, 1 barrier'
    """
    counts = {shape: own["shape"].count(shape) for shape in (*WITHOUT, "barrier", "not finite")}
    return ", ".join(f"{count} {shape}" for shape, count in counts.items() if count)


def table(records: kit.Records) -> kit.Table:
    """Shapes and heights of all lines."""
    rows = []
    for job, record in records.items():
        for line, own in record.final["paths"].items():
            heights = kit.Measured("", [float(h or 0.0) for h in own["height"]])
            ends = [losses[0] for losses in own["losses"]]
            rows.append(
                [
                    TITLES[job],
                    WORDS.get(line, line),
                    shapes(own),
                    heights.text(3),
                    f"{kit.mean_std(ends)[0]:.3f}",
                ]
            )
    columns = ["network", "line", "shapes", "height of the barrier", "loss at the start"]
    return kit.Table(columns, rows)


def smooth(record: kit.Record, key: str) -> list[float]:
    """For each run, the share of some lines that have no barrier; ``a,b`` names two."""
    return _share(record, key, WITHOUT)


def barriers(record: kit.Record, key: str) -> list[float]:
    """For each run, the share of some lines that have a barrier."""
    return _share(record, key, ("barrier",))


def _share(record: kit.Record, key: str, wanted: Sequence[str]) -> list[float]:
    lines = [record.at(f"paths/{line}/shape") for line in key.split(",")]
    runs = zip(*lines, strict=True)
    return [sum(shape in wanted for shape in run) / len(run) for run in runs]


def heights(record: kit.Record, key: str) -> list[float]:
    """Heights of the barriers of a line; 0 where there is none."""
    return [float(height or 0.0) for height in record.at(f"paths/{key}/height")]


def tops(record: kit.Record, key: str) -> list[float]:
    """The highest loss on a line."""
    return [max(losses) for losses in record.at(f"paths/{key}/losses")]


def rises(record: kit.Record, key: str) -> list[float]:
    """How far a line rises above its first loss."""
    return [max(losses) - losses[0] for losses in record.at(f"paths/{key}/losses")]


def rising(record: kit.Record, key: str) -> list[float]:
    """Shares of lines on the surface that have a barrier; nothing without a surface."""
    return record.values(key) if record.final.get("surface") else []


def without(job: str, lines: str, text: str, stated: str = "no barrier") -> kit.Stated:
    """No line has a barrier, in most runs."""
    return kit.Most(kit.Quantity(lines, text, read=smooth), job, stated, low=1.0)


def with_barrier(job: str, lines: str, text: str, stated: str = "barrier") -> kit.Stated:
    """Most lines have a barrier, in most runs."""
    return kit.Most(kit.Quantity(lines, text, read=barriers), job, stated, low=0.51)


def of(job: str, key: str, label: str = "", **own: Any) -> kit.Of:
    """A quantity of a line or of a method, in a job that has several."""
    return kit.Of(job, kit.Quantity(key, "", **own), label)


HEIGHT = kit.Quantity("", "height of the barrier, two turns", 1, digits=3)
ACCURACY = kit.Quantity("accuracy/adam", "test accuracy, %", 1, 100.0, 1)
TOP = kit.Quantity("", "highest loss on the line, two turns, 50-50", 1, digits=3)
RISING = kit.Quantity("surface/rising", "", 1, 100.0, 0, read=rising)
SURFACE = "share of the lines of fixed β on the surface with a barrier"
LAYERS = "six narrow hidden layers"
HARD, EASY = "methods-two", "methods-trigonometric"
LINES = ("start to end", "other start to end")
METHODS: list[kit.Judgement] = [
    *[
        without(job, name, f"line to {word}'s solution, {TITLES[job]}")
        for job in ("methods-mnist", "methods-one")
        for name, word in WORDS.items()
    ],
    *[
        kit.Apart(
            kit.Quantity("", f"test losses of Adam and AdLaLa, {TITLES[job]}", digits=3),
            of(job, "loss/adam", "Adam"),
            of(job, "loss/adlala", "AdLaLa"),
            "similar",
            -0.05,
            0.05,
        )
        for job in ("methods-mnist", "methods-one")
    ],
    kit.Inside(
        kit.Quantity("apart", ""),
        "methods-mnist",
        "different minima",
        low=0.5,
        text="way from Adam's to AdLaLa's solution over the way from the start to Adam's, MNIST",
    ),
    *[
        with_barrier(HARD, n, f"line to {word}'s solution, {TITLES[HARD]}")
        for n, word in WORDS.items()
    ],
    kit.Ahead(
        HEIGHT,
        of(HARD, "adlala", "AdLaLa", read=heights),
        [of(HARD, "adam", "Adam", read=heights)],
    ),
    kit.Ahead(
        ACCURACY,
        of(HARD, "accuracy/adlala", "AdLaLa", factor=100.0),
        [of(HARD, "accuracy/adam", "Adam", factor=100.0)],
        text="test accuracy, two turns, 20 nodes, % (thesis: 99 and 98 against 91 and 94)",
    ),
    kit.Most(
        RISING,
        "methods-mnist",
        "monotonic decline",
        high=0.0,
        text=f"{SURFACE}, {TITLES['methods-mnist']}, %",
    ),
    kit.Inside(RISING, HARD, "saddles", low=25.0, text=f"{SURFACE}, {TITLES[HARD]}, %"),
    *[
        kit.Ahead(
            kit.Quantity("", f"height of the barrier to {word}'s solution, 20 nodes", digits=3),
            of(EASY, name, "trigonometric data", read=heights),
            [of(HARD, name, "two turns", read=heights)],
        )
        for name, word in WORDS.items()
    ],
]
STARTS: list[kit.Judgement] = [
    *[without("starts-mnist", line, f"{line}, {TITLES['starts-mnist']}") for line in LINES],
    *[with_barrier("starts-spiral", line, f"{line}, two turns, 50-50") for line in LINES],
    kit.Most(
        kit.Quantity("start to end", "", read=rises),
        "starts-spiral",
        "all",
        low=1e-3,
        text="runs in which the line rises above the first loss by 0.001, two turns, 50-50",
    ),
    kit.Ahead(
        TOP,
        of("starts-spiral", LINES[1], LINES[1], read=tops),
        [of("starts-spiral", LINES[0], LINES[0], read=tops)],
    ),
]
NARROW = "layers-narrow"
DEEP: list[kit.Judgement] = [
    with_barrier(
        NARROW, "layer 1,layer 2,layer 3,layer 4", f"early layers 1 to 4 of {LAYERS}", "barriers"
    ),
    without(NARROW, "layer 5,layer 6,layer 7", f"later layers of {LAYERS}", "no barriers"),
    with_barrier(NARROW, "all", f"whole network, {LAYERS}"),
    *[
        without(job, "all", f"whole network, {TITLES[job]}")
        for job in ("layers-wide", "layers-mixed")
    ],
    *[
        kit.Near(ACCURACY, job, "100", text=f"test accuracy, {TITLES[job]}, %")
        for job in (NARROW, "layers-wide", "layers-mixed")
    ],
]
