"""Figures 3.6 to 3.8: how weights and biases are distributed, over time and over 100 runs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn

from colangevin.diagnostics import weight_distributions
from colangevin.ensemble import Ensemble
from colangevin.lab import kit
from colangevin.lab.experiments.partitioned import partitioned
from colangevin.lab.experiments.partitioned.partitioned import ACCURACY

NAME = "weight-distributions"
SPIRALS = {"two": 0.5, "four": 0.1}
"""Two and four turns, and AdLaLa's γ on them."""
MARKS = (50, 1_000, 10_000)
BINS, LIMIT = 60, 3.0
"""Of the histograms in the records: weights beyond ±3 are in none of their bins."""
FULL: dict[str, Any] = {
    "runs": 100,
    "course_runs": 5,
    "hidden": 500,
    "pooled_hidden": 20,
    "steps": 10_000,
    "train_points": 1_000,
    "pooled_train_points": 500,
    "test_points": 1_000,
    "batch_size": 20,
    "pooled_batch_size": 25,
}
SCALES: dict[str, dict[str, Any]] = {
    "smoke": {
        **FULL,
        "runs": 3,
        "course_runs": 2,
        "hidden": 8,
        "pooled_hidden": 4,
        "steps": 20,
        "train_points": 100,
        "pooled_train_points": 100,
        "test_points": 50,
    },
    "laptop": {**FULL, "runs": 20, "course_runs": 2},
    "full": FULL,
}
ADLALA = {"kind": "adlala", "h": 0.25, "sigma": 0.01, "tau": 1e-4, "epsilon": 0.1}
COURSES: dict[str, dict[str, Any]] = {
    "sgd": {"label": "SGD", "method": {"kind": "sgd", "h": 0.2}},
    "adam": {"label": "Adam", "method": {"kind": "adam", "h": 0.005}},
    "sgld": {"label": "SGLD", "method": {"kind": "sgld", "h": 0.1, "sigma": 0.01}},
    "sgld-0.1": {"label": "SGLD, σ = 0.1", "method": {"kind": "sgld", "h": 0.1, "sigma": 0.1}},
    "adlala": {"label": "AdLaLa", "method": ADLALA},
}
"""Figure 3.6 prints σ = 0.01 for SGLD, figure 3.8 prints 0.1: both are made."""
POOLS: dict[str, dict[str, Any]] = {
    "sgd": {"label": "SGD", "method": {"kind": "sgd", "h": 0.1}},
    "adam": {"label": "Adam", "method": {"kind": "adam", "h": 0.005}},
    "sgld": {"label": "SGLD", "method": {"kind": "sgld", "h": 0.1, "sigma": 0.1}},
    "lol": {"label": "LOL", "method": {"kind": "lol", "h": 0.25, "gamma": 0.01, "tau": 1e-3}},
    "adlala-0.5": {"label": "AdLaLa, γ = 0.5", "method": {**ADLALA, "gamma": 0.5}},
    "adlala-10": {"label": "AdLaLa, γ = 10", "method": {**ADLALA, "gamma": 10.0}},
}
LAYERS = {"w1": "0.weight", "b1": "0.bias", "w2": "2.weight"}


def jobs(settings: kit.Settings) -> list[kit.Job]:
    """One job per method and spiral over time, and one per method with pooled runs."""
    shared = {k: v for k, v in settings.items() if not k.startswith(("pooled_", "course_"))}
    fewer = min(settings["runs"], settings["course_runs"])
    found = []
    for spiral, gamma in SPIRALS.items():
        turns = {"turns": 2.0 if spiral == "two" else 4.0}
        for name, own in COURSES.items():
            method = {**own["method"], **({"gamma": gamma} if name == "adlala" else {})}
            chosen = {**shared, "runs": fewer, "data": turns, **own, "method": method}
            found.append(kit.Job(NAME, f"{spiral}-{name}", chosen))
    pooled = {k.removeprefix("pooled_"): v for k, v in settings.items() if k.startswith("pooled_")}
    for name, own in POOLS.items():
        chosen = {**shared, **pooled, "data": partitioned.TWO_TURNS, **own}
        found.append(kit.Job(NAME, f"pooled-{name}", chosen))
    return found


def seen(ensemble: Ensemble, start: Sequence[torch.Tensor]) -> dict[str, Any]:
    """Distributions of all members that are left, and how far the input weights have gone."""
    members = [ensemble.member(index) for index in ensemble.active]
    what: dict[str, Any] = {}
    for key, name in LAYERS.items():
        one = weight_distributions(members, name, bins=BINS, limit=LIMIT)[name]
        values = torch.stack([member.get_parameter(name).detach() for member in members])
        what[key] = {
            "density": one.density.tolist(),
            "near_zero": one.near_zero,
            "deviation": one.deviation,
            "largest": one.largest,
        }
        if key == "w1":
            first = torch.stack([start[index] for index in ensemble.active])
            moved = (values - first).square().flatten(1).mean(dim=1).sqrt()
            still = ((values - first).abs() < 1e-3).double().flatten(1).mean(dim=1)
            what["moved"] = kit.ensembles.everyone(ensemble, moved)
            what["unmoved"] = kit.ensembles.everyone(ensemble, still)
    what["zeros"] = kit.ensembles.everyone(ensemble, torch.tensor([*map(near_zero, members)]))
    return what


def near_zero(model: nn.Module) -> float:
    """Share of the weights and biases of a perceptron that are below 0.01.

    Example:
        >>> near_zero(nn.Linear(2, 1).requires_grad_(False).apply(lambda m: m.weight.zero_()))
        0.6666666865348816
    """
    values = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    return float((values.abs() < 0.01).float().mean())


def run(job: kit.Job, log: kit.Log) -> None:
    """Train all runs; look at their weights at steps 50, 1,000 and at the end."""
    settings = job.settings
    seeds = kit.seeds_of(settings)
    ensemble = partitioned.make(settings, seeds)
    points = partitioned.draw_points(settings, seeds)
    start = [
        ensemble.member(index).get_parameter("0.weight").detach() for index in range(len(seeds))
    ]
    last = partitioned.epochs_of(settings)
    marks = [partitioned.epochs_of(settings, step) for step in MARKS]
    wanted = {last} if job.name.startswith("pooled") else {*marks, last}

    def observe(members: Ensemble) -> dict[str, Any] | None:
        if members.epochs not in wanted:
            return None
        measured = partitioned.measure(members, points)["test_accuracy"]
        accuracy = kit.ensembles.everyone(members, measured)
        return {"accuracy": accuracy, **seen(members, start)}

    kept = partitioned.train(ensemble, settings, points, log, observe)
    if kept is not None:
        log.finish(seen=kept, removed=kit.ensembles.removals(ensemble))


def table(records: kit.Records) -> kit.Table:
    """Accuracies and what the distributions look like, a row for each job and time."""
    rows = [
        [
            job,
            record.label,
            f"{seen['epoch'] * record.settings['train_points'] // record.settings['batch_size']:,}",
            kit.summary([100 * value for value in record.values(f"seen/{place}/accuracy")], 1),
            f"{kit.mean_std(record.values(f'seen/{place}/moved'))[0]:.3f}",
            f"{100 * seen['w1']['near_zero']:.1f}",
            f"{seen['w1']['deviation']:.2f}",
            f"{seen['w2']['deviation']:.2f}",
            f"{seen['w2']['largest']:.1f}",
        ]
        for job, record in records.items()
        for place, seen in enumerate(record.final["seen"])
    ]
    columns = ["job", "method", "step", "test accuracy, %", "w1 moved", "w1 below 0.01, %"]
    return kit.Table([*columns, "deviation of w1", "of w2", "largest w2"], rows)


TWO = "two turns, %"
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


def courses(records: kit.Records, spiral: str) -> kit.Figure | None:
    """Weights over time on a spiral, figures 3.6 and 3.7."""
    found = records.named(f"{spiral}-*")
    return _courses(found) if found else None


def pools(records: kit.Records) -> kit.Figure | None:
    """Figure 3.8: the weights of all runs."""
    found = records.named("pooled-*")
    return _pools(found) if found else None


def _courses(records: Sequence[kit.Record]) -> kit.Figure:

    figure, axes = kit.panels((3.6 * len(records), 6), 2, len(records), squeeze=False)
    for column, record in enumerate(records):
        steps = record.settings["train_points"] // record.settings["batch_size"]
        for row, key in enumerate(("w1", "b1")):
            axis = axes[row, column]
            for color, seen in zip(kit.COLORS, record.final["seen"], strict=False):
                _density(axis, seen[key], f"step {seen['epoch'] * steps:,}", color)
            axis.set(title=record.label if row == 0 else "", ylabel=key, yscale="log")
            axis.legend(fontsize="x-small")
    _say_outside(figure)
    return figure


def _pools(records: Sequence[kit.Record]) -> kit.Figure:

    figure, axes = kit.panels((3.2 * len(records), 3.4), 1, len(records), sharey=True)
    for axis, record in zip(axes, records, strict=True):
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


def _say_outside(figure: kit.Figure) -> None:
    text = f"share of the weights over the width of a bin; outside: beyond ±{LIMIT:g}, not drawn"
    figure.suptitle(text, fontsize="small", color="gray")


def when(record: kit.Record, key: str) -> list[float]:
    """What was seen at a time, ``0/unmoved``; nothing if the run was too short for it."""
    place = int(key.partition("/")[0])
    return record.values(f"seen/{key}") if place < len(record.final["seen"]) else []


SEEN = kit.Quantity("", "", 1, 100.0, read=when)
UNMOVED = replace(SEEN, key="0/unmoved", sign=-1, digits=1)
OF_COURSES = [
    kit.Near(
        replace(SEEN, key=f"{place}/accuracy"),
        f"{spiral}-{name}",
        f"{100 * value:g}",
        text=f"test accuracy of {{label}}, {spiral} turns, step {MARKS[place]:,}, %",
        why=ONE_RUN,
    )
    for spiral, stated in COURSE.items()
    for name, values in stated.items()
    for place, value in enumerate(values)
]
EXCITED = kit.Ahead(
    UNMOVED,
    "{spiral}-{name}",
    over=("{spiral}-sgd", "{spiral}-adam"),
    text="input weights that have not moved by 0.001 at step 50, {spiral} turns, %",
    each={"spiral": ("two", "four"), "name": ("sgld", "adlala")},
)


def larger(records: kit.Records, spiral: str) -> list[kit.Claim]:
    """SGLD gives much larger values to the parameters than AdLaLa."""
    found, adaptive = [], records.get(f"{spiral}-adlala")
    for noisy in (records.get(f"{spiral}-sgld"), records.get(f"{spiral}-sgld-0.1")):
        if noisy is None or adaptive is None:
            continue
        sizes = {
            record.label: [last(record)[layer]["deviation"] for layer in ("w1", "b1")]
            for record in (noisy, adaptive)
        }
        ours = "; ".join(f"{name} {w1:.2f} and {b1:.2f}" for name, (w1, b1) in sizes.items())
        text = f"deviations of input weights and biases at the end, {spiral} turns"
        stated = f"{noisy.settings['label']} > AdLaLa"
        found.append(kit.undecided(text, stated, ours, POOLED_ONLY))
    return found


def tenth(record: kit.Record, key: str) -> list[float]:
    """Shares of weights and biases near zero in the ``worst`` or the ``best`` tenth of the runs.

    The thesis compares one with one; of 81 parameters of a run, mostly none is near zero.
    """
    pairs = zip(record.values("seen/-1/accuracy"), record.values("seen/-1/zeros"), strict=True)
    runs = [zeros for _, zeros in sorted(one for one in pairs if all(map(math.isfinite, one)))]
    count = max(1, len(runs) // 10)
    return runs[:count] if key == "worst" else runs[-count:]


def gap(record: kit.Record, key: str) -> list[float]:
    """Best minus worst run."""
    values = record.values(key)
    return [max(values) - min(values)]


TENTH = kit.Quantity("worst", "", 1, 100.0, 1, read=tenth)
SPREAD = replace(
    ACCURACY,
    label="spread over the runs, mean distance from the median, %",
    sign=-1,
    chance=None,
    read=kit.spreads,
)
OF_POOLS = [
    *[
        kit.Near(
            ACCURACY, f"pooled-{name}", f"{value:g}", text=f"mean test accuracy of {{label}}, {TWO}"
        )
        for name, value in POOL.items()
    ],
    kit.Ahead(
        ACCURACY,
        "pooled-adlala-0.5",
        over=("pooled-sgd", "pooled-adam", "pooled-sgld"),
        text=f"test accuracy over 100 runs, {TWO}",
    ),
    *[
        kit.Near(
            replace(ACCURACY, read=gap),
            f"pooled-{name}",
            f"{value:g}",
            text="best minus worst run of {label}, %",
            reason="a range has no error, and grows with the runs",
        )
        for name, value in GAPS.items()
    ],
    kit.Ahead(SPREAD, "pooled-adlala-0.5", over=("pooled-lol",)),
    kit.Ahead(SPREAD, "pooled-lol", over=("pooled-adam",)),
    *[
        kit.Ahead(
            TENTH,
            kit.Of(f"pooled-{who.lower()}", label="worst runs"),
            over=[kit.Of(f"pooled-{who.lower()}", replace(TENTH, key="best"), "best runs")],
            text=f"weights and biases below 0.01 in the worst and the best tenth of runs, %: {who}",
            shared=False,
        )
        for who in ("Adam", "LOL")
    ],
]


def many_near_zero(records: kit.Records, where: str, pattern: str) -> list[kit.Claim]:
    """SGD and Adam leave many weights near zero, SGLD and AdLaLa do not."""
    shares = {
        record.label: 100 * last(record)["w1"]["near_zero"]
        for record in records.named(pattern)
        if record.job.partition("-")[2].startswith(("sgd", "adam", "sgld", "adlala"))
    }
    ours = "; ".join(f"{label} {share:.1f}" for label, share in shares.items())
    text = f"input weights below 0.01, {where}, %: SGD and Adam against SGLD and AdLaLa"
    return [kit.undecided(text, "many, and more", ours, POOLED_ONLY)] if len(shares) > 3 else []


def sizes(records: kit.Records) -> list[kit.Claim]:
    """How large weights are, in all runs together."""
    pools = {record.job.removeprefix("pooled-"): record for record in records.named("pooled-*")}
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


EXPERIMENT = kit.Experiment(
    name=NAME,
    title="distributions of weights and biases of SGD, Adam, SGLD, LOL and AdLaLa on spirals",
    phrase="distributions of weights and biases",
    source="thesis figures 3.6, 3.7 and 3.8",
    claimed="""SGD and Adam leave many weights near zero, thermodynamic methods excite all weights
        at once; AdLaLa has the highest and the steadiest accuracy""",
    ours="""five runs for figures that show one; bounds for near zero (0.01) and not moved (0.001);
        σ of SGLD as printed (0.01 in figure 3.6, perhaps a misprint of 0.1)""",
    settings_stated="""
        σ of SGLD in figure 3.6 | 0.01 (0.1 in figure 3.8) | 0.01
        runs | 1 (figures 3.6, 3.7), 100 (figure 3.8) | {runs}
        near zero | no number | below 0.01
        nodes | 500 and 20 | {hidden}
        steps | 10,000 | {steps}
    """,
    scales=SCALES,
    jobs=jobs,
    run=run,
    figures={
        "two-turns": partial(courses, spiral="two"),
        "four-turns": partial(courses, spiral="four"),
        "pooled": pools,
    },
    table=table,
    claims=[
        *OF_COURSES,
        EXCITED,
        *[partial(larger, spiral=spiral) for spiral in SPIRALS],
        partial(many_near_zero, where="four turns, 500 nodes", pattern="four-*"),
        *OF_POOLS,
        partial(many_near_zero, where="two turns, 20 nodes", pattern="pooled-*"),
        sizes,
    ],
    note="LOL's settings with 100 runs are those of figure 3.14",
    times={"smoke": "6 s", "laptop": "1 min", "full": "3 min"},
)
