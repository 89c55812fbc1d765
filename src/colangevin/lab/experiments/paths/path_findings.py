"""What the records of loss-paths show, and what the thesis states about it."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from colangevin.diagnostics import LossPath
from colangevin.lab import kit

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "loss-paths"
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


def figures(records: kit.Records) -> dict[str, Figure]:
    """Lines of all jobs, and the surfaces."""
    from matplotlib.figure import Figure

    found = {}
    for part in ("methods", "starts", "layers"):
        chosen = {job: r for job, r in records.items() if job.startswith(part)}
        if not chosen:
            continue
        figure = Figure(figsize=(5.0 * len(chosen), 3.9), layout="constrained")
        axes = figure.subplots(1, len(chosen), squeeze=False)[0]
        for axis, (job, record) in zip(axes, chosen.items(), strict=True):
            _lines(axis, record)
            axis.set_title(TITLES[job])
        kit.say_bands(figure)
        found[part] = figure
    surfaces = {job: r for job, r in records.items() if r.final.get("surface")}
    if surfaces:
        found["surfaces"] = _surfaces(surfaces)
    return found


def _lines(axis: Any, record: kit.Record) -> None:
    draw_lines(axis, {WORDS.get(name, name): own for name, own in record.final["paths"].items()})


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


def _surfaces(records: Mapping[str, kit.Record]) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.0 * len(records), 4.0), layout="constrained")
    axes = figure.subplots(1, len(records), squeeze=False)[0]
    for axis, (job, record) in zip(axes, records.items(), strict=True):
        found = record.final["surface"]
        heights = np.array(found["heights"], dtype=float)
        places = np.linspace(0, 1, len(heights))
        lines = axis.contourf(places, places, heights, levels=20, cmap="viridis")
        figure.colorbar(lines, ax=axis, label="test loss, first run")
        sides = "β: from one of Adam's solutions to another"
        axis.set(xlabel="α: from start to end", ylabel=sides, title=TITLES[job])
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


def claims(records: kit.Records) -> list[kit.Claim]:
    """What the captions and sections 3.4, 6.1.3 and 6.1.10.6 state."""
    return (
        [c for job in ("methods-mnist", "methods-one") for c in _no_barrier(records, job)]
        + _two_turns(records)
        + _saddles(records)
        + _starts(records)
        + _layers(records)
        + _trigonometric(records)
    )


def _trigonometric(records: kit.Records) -> list[kit.Claim]:
    """What section 3.4 adds to figure 3.4 without showing it."""
    jobs = {"methods-trigonometric": "trigonometric data", "methods-two": "two turns"}
    if any(job not in records for job in jobs):
        return []
    found = []
    for name, word in WORDS.items():
        heights = [
            kit.Measured(
                title, [float(h or 0.0) for h in records[job].final["paths"][name]["height"]]
            )
            for job, title in jobs.items()
        ]
        text = f"height of the barrier to {word}'s solution, 20 nodes"
        found.append(kit.ahead(text, heights[0], heights[1:], sign=-1, digits=3))
    return found


def _without(text: str, own: Mapping[str, Any]) -> kit.Claim:
    """The claim that lines have no barrier."""
    right = sum(shape in WITHOUT for shape in own["shape"])
    return kit.most(text, "no barrier", right, len(own["shape"]), shapes(own))


def _with(text: str, own: Mapping[str, Any]) -> kit.Claim:
    """The claim that lines have barriers."""
    heights = kit.Measured("", [float(h or 0.0) for h in own["height"]])
    ours = f"{shapes(own)}; height {heights.text(3)}"
    return kit.most(text, "barrier", own["shape"].count("barrier"), len(own["shape"]), ours)


def _no_barrier(records: kit.Records, job: str) -> list[kit.Claim]:
    if job not in records:
        return []
    paths = records[job].final["paths"]
    found = [
        _without(f"line to {WORDS[name]}'s solution, {TITLES[job]}", own)
        for name, own in paths.items()
    ]
    losses = records[job].final["loss"]
    ours = "; ".join(f"{WORDS[name]} {kit.Measured('', v).text(3)}" for name, v in losses.items())
    apart = kit.of_pairs([a - b for a, b in zip(losses["adam"], losses["adlala"], strict=True)])
    text = f"test losses of Adam and AdLaLa, {TITLES[job]}"
    why = "taken as within 0.05"
    found.append(kit.Claim(text, "similar", ours, order=kit.within(apart, -0.05, 0.05), why=why))
    return found + ([_minima(records[job])] if job == "methods-mnist" else [])


def _minima(record: kit.Record) -> kit.Claim:
    """Adam and AdLaLa converge to different minima from the same start."""
    text = "way from Adam's to AdLaLa's solution over the way from the start to Adam's, MNIST"
    return kit.inside(
        text, "different minima", kit.Measured("", record.final["apart"]), low=0.5, digits=2
    )


def _two_turns(records: kit.Records) -> list[kit.Claim]:
    job = "methods-two"
    if job not in records:
        return []
    record = records[job]
    paths = record.final["paths"]
    found = [
        _with(f"line to {WORDS[name]}'s solution, {TITLES[job]}", own)
        for name, own in paths.items()
    ]
    heights = {
        name: kit.Measured(WORDS[name], [float(h or 0.0) for h in own["height"]])
        for name, own in paths.items()
    }
    text = "height of the barrier, two turns"
    found.append(kit.ahead(text, heights["adlala"], [heights["adam"]], digits=3))
    reached = {
        name: kit.Measured(WORDS[name], [100 * float(v) for v in values])
        for name, values in record.final["accuracy"].items()
    }
    text = "test accuracy, two turns, 20 nodes, % (thesis: 99 and 98 against 91 and 94)"
    found.append(kit.ahead(text, reached["adlala"], [reached["adam"]], digits=1))
    return found


def _saddles(records: kit.Records) -> list[kit.Claim]:
    found = []
    for job, rising in (("methods-mnist", False), ("methods-two", True)):
        if job not in records or not records[job].final.get("surface"):
            continue
        shares = [100 * value for value in records[job].final["surface"]["rising"]]
        text = "share of the lines of fixed β on the surface with a barrier"
        text, ours = f"{text}, {TITLES[job]}, %", kit.Measured("", shares)
        if rising:
            found.append(kit.inside(text, "saddles", ours, low=25.0, digits=0))
        else:
            right = shares.count(0.0)
            found.append(kit.most(text, "monotonic decline", right, len(shares), ours.text(0)))
    return found


def _starts(records: kit.Records) -> list[kit.Claim]:
    found = []
    if "starts-mnist" in records:
        paths = records["starts-mnist"].final["paths"]
        for line in ("start to end", "other start to end"):
            found.append(_without(f"{line}, MNIST, 50-50", paths[line]))
    if "starts-spiral" in records:
        paths = records["starts-spiral"].final["paths"]
        for line in ("start to end", "other start to end"):
            found.append(_with(f"{line}, two turns, 50-50", paths[line]))
        own = paths["start to end"]["losses"]
        above = [max(losses) - losses[0] for losses in own]
        higher = sum(value > 1e-3 for value in above)
        text = "runs in which the line rises above the first loss by 0.001, two turns, 50-50"
        found.append(kit.most(text, "all", higher, len(above)))
        tops = {
            line: kit.Measured(line, [max(losses) for losses in paths[line]["losses"]])
            for line in ("other start to end", "start to end")
        }
        text = "highest loss on the line, two turns, 50-50"
        found.append(kit.ahead(text, tops["other start to end"], [tops["start to end"]], digits=3))
    return found


def _layers(records: kit.Records) -> list[kit.Claim]:
    found = []
    if "layers-narrow" in records:
        paths = records["layers-narrow"].final["paths"]
        early = [paths[f"layer {n}"] for n in (1, 2, 3, 4)]
        late = [paths[f"layer {n}"] for n in (5, 6, 7)]
        found.append(_share("early layers 1 to 4 of six narrow hidden layers", early, True))
        found.append(_share("later layers of six narrow hidden layers", late, False))
        found.append(_with("whole network, six narrow hidden layers", paths["all"]))
    for job in ("layers-wide", "layers-mixed"):
        if job in records:
            whole = records[job].final["paths"]["all"]
            found.append(_without(f"whole network, {TITLES[job]}", whole))
    for job in ("layers-narrow", "layers-wide", "layers-mixed"):
        if job in records:
            values = [100 * float(v) for v in records[job].final["accuracy"]["adam"]]
            text = f"test accuracy, {TITLES[job]}, %"
            found.append(kit.number(text, "100", kit.Measured("", values), digits=1))
    return found


def _share(text: str, owns: Sequence[Mapping[str, Any]], wanted: bool) -> kit.Claim:
    """The claim that most lines of a run have barriers, or that none of them has one."""
    runs = [[own["shape"][run] for own in owns] for run in range(len(owns[0]["shape"]))]
    lines = [shape for shapes_ in runs for shape in shapes_]
    ours = f"{lines.count('barrier')} of {len(lines)} lines have a barrier"
    if wanted:
        right = sum(run.count("barrier") > len(run) / 2 for run in runs)
        return kit.most(text, "barriers", right, len(runs), ours)
    right = sum(set(run) <= set(WITHOUT) for run in runs)
    return kit.most(text, "no barriers", right, len(runs), ours)
