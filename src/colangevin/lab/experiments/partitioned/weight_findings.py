"""What the records of weight-distributions show, and what the thesis states about it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from colangevin.lab import kit
from colangevin.lab.experiments.partitioned.partitioned import ACCURACY

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "weight-distributions"
SPIRALS = {"two": 0.5, "four": 0.1}
"""Two and four turns, and AdLaLa's γ on them."""
MARKS = (50, 1_000, 10_000)
BINS, LIMIT = 60, 3.0
"""Of the histograms in the records: weights beyond ±3 are in none of their bins."""
POOLED = "pooled"
COURSE = {
    "two": {
        "sgd": (0.66, 0.66, 0.96),
        "adam": (0.65, 0.89, 0.99),
        "sgld": (0.61, 0.68, 0.74),
        "sgld-0.1": (0.61, 0.68, 0.74),
        "adlala": (0.62, 0.82, 0.99),
    },
    "four": {
        "sgd": (0.5, 0.56, 0.58),
        "adam": (0.58, 0.55, 0.67),
        "sgld": (0.52, 0.5, 0.54),
        "sgld-0.1": (0.52, 0.5, 0.54),
        "adlala": (0.45, 0.62, 0.8),
    },
}
"""Test accuracies at steps 50, 1,000 and 10,000 of figures 3.6 and 3.7."""
POOL = {"sgd": 79.0, "adam": 83.7, "sgld": 78.0, "adlala-0.5": 93.4, "adlala-10": 85.5}
"""Mean test accuracies of figure 3.8."""
POOLED_ONLY = "one number of all runs together, which has no error"
ONE_RUN = "the source shows one run"
GAPS = {"adam": 35.0, "lol": 10.0}
"""Best minus worst run, section 3.5; AdLaLa's is said to be less than LOL's."""


def last(record: kit.Record) -> Mapping[str, Any]:
    """What was seen at the end."""
    found: Mapping[str, Any] = record.final["seen"][-1]
    return found


def _finite(values: Any) -> list[float]:
    return [math.nan if value is None else float(value) for value in values]


def rows(records: kit.Records) -> list[list[str]]:
    """The table's rows: one per job and time."""
    found = []
    for job, record in records.items():
        steps = record.settings["train_points"] // record.settings["batch_size"]
        for seen in record.final["seen"]:
            accuracy = kit.Measured("", [100 * value for value in _finite(seen["accuracy"])])
            found.append(
                [
                    job,
                    record.settings["label"],
                    f"{seen['epoch'] * steps:,}",
                    accuracy.text(1),
                    f"{kit.mean_std(_finite(seen['moved']))[0]:.3f}",
                    f"{100 * seen['w1']['near_zero']:.1f}",
                    f"{seen['w1']['deviation']:.2f}",
                    f"{seen['w2']['deviation']:.2f}",
                    f"{seen['w2']['largest']:.1f}",
                ]
            )
    return found


def figures(records: kit.Records) -> dict[str, Figure]:
    """Figures 3.6, 3.7 (weights over time) and 3.8 (pooled runs)."""
    found = {}
    for spiral in SPIRALS:
        courses = {j: r for j, r in records.items() if j.startswith(f"{spiral}-")}
        if courses:
            found[f"{spiral}-turns"] = _courses(courses)
    pools = {j: r for j, r in records.items() if j.startswith(POOLED)}
    if pools:
        found["pooled"] = _pools(pools)
    return found


def _courses(records: Mapping[str, kit.Record]) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(3.6 * len(records), 6), layout="constrained")
    axes = figure.subplots(2, len(records), squeeze=False)
    for column, record in enumerate(records.values()):
        steps = record.settings["train_points"] // record.settings["batch_size"]
        for row, key in enumerate(("w1", "b1")):
            axis = axes[row, column]
            for color, seen in zip(kit.COLORS, record.final["seen"], strict=False):
                _density(axis, seen[key], f"step {seen['epoch'] * steps:,}", color)
            axis.set(title=record.settings["label"] if row == 0 else "", ylabel=key, yscale="log")
            axis.legend(fontsize="x-small")
    _say_outside(figure)
    return figure


def _pools(records: Mapping[str, kit.Record]) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(3.2 * len(records), 3.4), layout="constrained")
    axes = figure.subplots(1, len(records), squeeze=False, sharey=True)[0]
    for axis, record in zip(axes, records.values(), strict=True):
        for color, key in zip(kit.COLORS, ("w1", "w2"), strict=False):
            _density(axis, last(record)[key], key, color)
        mean = kit.mean_std(ACCURACY.of(record).values)[0]
        axis.set(title=f"{record.settings['label']}: {mean:.1f} %", yscale="log", xlabel="weight")
        axis.legend(fontsize="x-small")
    _say_outside(figure)
    return figure


def _density(axis: Any, seen: Mapping[str, Any], label: str, color: str) -> None:
    edges = np.linspace(-LIMIT, LIMIT, BINS + 1)
    beyond = outside(seen["density"])
    named = f"{label} ({beyond:.0f} % outside)" if beyond >= 0.5 else label
    axis.step((edges[1:] + edges[:-1]) / 2, seen["density"], where="mid", label=named, color=color)


def outside(density: Sequence[float]) -> float:
    """Per cent of the weights that are beyond the limits of a histogram.

    Example:
        >>> round(outside([0.15] * BINS), 6)
        10.0
    """
    return 100 * (1 - math.fsum(density) * 2 * LIMIT / BINS)


def _say_outside(figure: Figure) -> None:
    text = f"share of the weights over the width of a bin; outside: beyond ±{LIMIT:g}, not drawn"
    figure.suptitle(text, fontsize="small", color="gray")


def claims_on_courses(records: kit.Records) -> list[kit.Claim]:
    """Accuracies of figures 3.6 and 3.7, and which weights are excited within 50 steps."""
    found = []
    for spiral, stated in COURSE.items():
        own = {name: records.get(f"{spiral}-{name}") for name in stated}
        for name, values in stated.items():
            record = own[name]
            if record is None or len(record.final["seen"]) != len(MARKS):
                continue
            for step, value, seen in zip(MARKS, values, record.final["seen"], strict=True):
                runs = [100 * v for v in _finite(seen["accuracy"])]
                label = f"{record.settings['label']}, {spiral} turns, step {step:,}"
                text = f"test accuracy of {label}, %"
                found.append(
                    kit.number(text, f"{100 * value:g}", kit.Measured(label, runs), why=ONE_RUN)
                )
        found += _excited(spiral, own) + _larger(spiral, own)
        if spiral == "four":
            found += _near_zero(own, "four turns, 500 nodes")
    return found


def _excited(spiral: str, own: Mapping[str, kit.Record | None]) -> list[kit.Claim]:
    """Thermodynamic methods excite all weights within 50 steps: fewer have not moved."""
    first: dict[str, kit.Measured] = {}
    for name, record in own.items():
        if record is not None:
            values = [100 * v for v in _finite(record.final["seen"][0]["unmoved"])]
            first[name] = kit.Measured(record.settings["label"], values)
    found = []
    for name in ("sgld", "adlala"):
        others = [first[other] for other in ("sgd", "adam") if other in first]
        if name in first and others:
            text = f"input weights that have not moved by 0.001 at step 50, {spiral} turns, %"
            found.append(kit.ahead(text, first[name], others, sign=-1, digits=1))
    return found


def _larger(spiral: str, own: Mapping[str, kit.Record | None]) -> list[kit.Claim]:
    """SGLD gives much larger values to the parameters than AdLaLa."""
    found, adaptive = [], own.get("adlala")
    for noisy in (own.get("sgld"), own.get("sgld-0.1")):
        if noisy is None or adaptive is None:
            continue
        sizes = {
            record.settings["label"]: [last(record)[layer]["deviation"] for layer in ("w1", "b1")]
            for record in (noisy, adaptive)
        }
        ours = "; ".join(f"{name} {w1:.2f} and {b1:.2f}" for name, (w1, b1) in sizes.items())
        text = f"deviations of input weights and biases at the end, {spiral} turns"
        stated = f"{noisy.settings['label']} > AdLaLa"
        found.append(kit.undecided(text, stated, ours, POOLED_ONLY))
    return found


def _worst(pools: Mapping[str, kit.Record]) -> list[kit.Claim]:
    """The worst runs have more weights and biases near zero than the best ones.

    The thesis compares one with one; of 81 parameters of a run, mostly none is near zero, so
    tenths of the runs are compared.
    """
    found = []
    for name in ("adam", "lol"):
        seen = last(pools[name]) if name in pools else {}
        if "zeros" not in seen:
            continue
        runs = sorted(
            (100 * a, 100 * z)
            for a, z in zip(seen["accuracy"], seen["zeros"], strict=True)
            if a is not None and z is not None
        )
        tenth = max(1, len(runs) // 10)
        parts = {"worst runs": runs[:tenth], "best runs": runs[-tenth:]}
        worst, best = (kit.Measured(word, [z for _, z in part]) for word, part in parts.items())
        label = pools[name].settings["label"]
        text = f"weights and biases below 0.01 in the worst and the best tenth of runs, %: {label}"
        found.append(kit.ahead(text, worst, [best], digits=1, shared=False))
    return found


def claims_on_pools(pools: Mapping[str, kit.Record]) -> list[kit.Claim]:
    """Figure 3.8 and the text beside it."""
    found = []
    measured = {name: ACCURACY.of(record) for name, record in pools.items()}
    for name, value in POOL.items():
        if name in measured:
            label = measured[name].label
            text = f"mean test accuracy of {label}, two turns, %"
            found.append(kit.number(text, f"{value:g}", measured[name], digits=1))
    others = [measured[name] for name in ("sgd", "adam", "sgld") if name in measured]
    if "adlala-0.5" in measured and others:
        text = "test accuracy over 100 runs, two turns, %"
        found.append(kit.ahead(text, measured["adlala-0.5"], others, digits=1))
    found += _near_zero(pools, "two turns, 20 nodes") + _sizes(pools) + _gaps(measured)
    found += _worst(pools)
    return found


def _near_zero(records: Mapping[str, kit.Record | None], where: str) -> list[kit.Claim]:
    """SGD and Adam leave many weights near zero, SGLD and AdLaLa do not."""
    shares = {
        record.settings["label"]: 100 * last(record)["w1"]["near_zero"]
        for name, record in records.items()
        if record is not None and name.startswith(("sgd", "adam", "sgld", "adlala"))
    }
    ours = "; ".join(f"{label} {share:.1f}" for label, share in shares.items())
    text = f"input weights below 0.01, {where}, %: SGD and Adam against SGLD and AdLaLa"
    return [kit.undecided(text, "many, and more", ours, POOLED_ONLY)] if len(shares) > 3 else []


def _sizes(pools: Mapping[str, kit.Record]) -> list[kit.Claim]:
    found = []
    for name, larger in (("adlala-0.5", True), ("adlala-10", False), ("sgd", True), ("adam", True)):
        if name in pools:
            seen = last(pools[name])
            ours = f"w2 {seen['w2']['deviation']:.2f}, w1 {seen['w1']['deviation']:.2f}"
            label = pools[name].settings["label"]
            text = f"deviation of output weights against input weights, {label}"
            stated = "larger" if larger else "not larger"
            found.append(kit.undecided(text, stated, ours, POOLED_ONLY))
    if "lol" in pools:
        largest = max(last(pools["lol"])[layer]["largest"] for layer in ("w1", "b1"))
        text = "largest weight or bias of LOL's first layer"
        found.append(kit.undecided(text, "of order 100", f"{largest:.0f}", POOLED_ONLY))
    return found


def _gaps(measured: Mapping[str, kit.Measured]) -> list[kit.Claim]:
    """Best minus worst run, and the order of spreads that the text makes of it."""
    found = []
    for name, value in GAPS.items():
        if name in measured and len(measured[name].values) > 1:
            gap = max(measured[name].values) - min(measured[name].values)
            text = f"best minus worst run of {measured[name].label}, %"
            ours = kit.Measured("", [gap])
            why = "a range has no error, and grows with the runs"
            found.append(kit.number(text, f"{value:g}", ours, digits=1, error=why))
    if {"lol", "adlala-0.5", "adam"} <= set(measured):
        wide = [kit.spreads(measured[name]) for name in ("adlala-0.5", "lol", "adam")]
        text = "spread over the runs, mean distance from the median, %"
        found += [kit.ahead(text, a, [b], sign=-1, digits=1) for a, b in itertools.pairwise(wide)]
    return found
