"""Figures 3.6 to 3.8: how weights and biases are distributed, over time and over 100 runs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import nn

from colangevin.diagnostics import weight_distributions
from colangevin.ensemble import Ensemble
from colangevin.lab import kit
from colangevin.lab.experiments.partitioned import partitioned
from colangevin.lab.experiments.partitioned import weight_findings as found
from colangevin.lab.experiments.partitioned.weight_findings import BINS, LIMIT, MARKS, SPIRALS

NAME = "weight-distributions"
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
        "two-turns": partial(found.courses, spiral="two"),
        "four-turns": partial(found.courses, spiral="four"),
        "pooled": found.pools,
    },
    table=table,
    claims=[
        *found.OF_COURSES,
        found.EXCITED,
        *[partial(found.larger, spiral=spiral) for spiral in SPIRALS],
        partial(found.near_zero, where="four turns, 500 nodes", pattern="four-*"),
        *found.OF_POOLS,
        partial(found.near_zero, where="two turns, 20 nodes", pattern="pooled-*"),
        found.sizes,
    ],
    note="LOL's settings with 100 runs are those of figure 3.14",
    times={"smoke": "6 s", "laptop": "1 min", "full": "3 min"},
)
