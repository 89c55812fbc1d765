"""Section 3.6, "Evolution": where on a spiral a training succeeds first, and which points move it.

The thesis states two things without a figure: whatever the optimizer, the outer part of the
spirals is told apart first; and for SGD single points of the outer part move the weights more
than inner ones at first, while for AdLaLa they do so about equally.
"""

from __future__ import annotations

from typing import Any

import torch

from colangevin.diagnostics import accuracy_by_radius, point_effects
from colangevin.ensemble import Ensemble
from colangevin.lab import kit
from colangevin.lab.experiments.partitioned import partitioned
from colangevin.lab.experiments.partitioned.spirals import TWO_TURNS_ADLALA

FULL: dict[str, Any] = {
    "runs": 10,
    "hidden": 100,
    "train_points": 500,
    "test_points": 1_000,
    "batch_size": 25,
    "steps": 8_000,
    "measurements": 20,
    "data": partitioned.TWO_TURNS,
}
SCALES: dict[str, dict[str, Any]] = {
    "smoke": {**FULL, "runs": 2, "hidden": 6, "test_points": 60, "steps": 80},
    "laptop": {**FULL, "runs": 3, "steps": 4_000},
    "full": FULL,
}
METHODS: dict[str, dict[str, Any]] = {
    "sgd": {"label": "SGD", "method": {"kind": "sgd", "h": 0.2}},
    "adam": {"label": "Adam", "method": {"kind": "adam", "h": 0.005}},
    "sgld": {"label": "SGLD", "method": {"kind": "sgld", "h": 0.1, "sigma": 0.01}},
    "adlala": {"label": "AdLaLa", "method": TWO_TURNS_ADLALA},
}
EDGES = (0.0, 1.0, 1.5, 2.2)
"""Radii between the rings: a quarter of the arm's points, 5/16 and 7/16 (the arm ends at 2)."""
RINGS = ("inner", "middle", "outer")
EFFECT_POINTS = 200
EARLY = 2_000
"""Steps that the thesis calls the beginning."""


def look(ensemble: Ensemble, settings: kit.Settings, points: partitioned.Points) -> dict[str, Any]:
    """Accuracies of the rings, and mean effects of inner and outer points, run by run."""
    accuracies, effects = [], []
    for index in ensemble.active:
        model = ensemble.member(index)
        test = points.test_inputs[index], points.test_labels[index]
        accuracies.append(accuracy_by_radius(model, *test, EDGES).tolist())
        inputs, labels = (part[index][:EFFECT_POINTS] for part in points[:2])
        moved = point_effects(model, partitioned.loss, inputs, labels)
        radius = inputs.norm(dim=1)
        inner, outer = radius < EDGES[1], radius >= EDGES[2]
        effects.append([float(moved[inner].mean()), float(moved[outer].mean())])
    epochs = ensemble.epochs
    step = epochs * settings["train_points"] // settings["batch_size"]
    return {"step": step, "rings": accuracies, "effects": effects}


def run(job: kit.Job, log: kit.Log) -> None:
    """Train, and look at rings and single points now and then."""
    settings = job.settings
    seeds = kit.seeds_of(settings)
    points = partitioned.draw_points(settings, seeds)
    epochs = partitioned.epochs_of(settings)
    spacing = max(1, epochs // settings["measurements"])

    def observe(ensemble: Ensemble) -> dict[str, Any] | None:
        due = ensemble.epochs % spacing == 0 or ensemble.epochs == epochs
        return look(ensemble, settings, points) if due else None

    ensemble = partitioned.make(settings, seeds)
    kept = partitioned.train(ensemble, settings, points, log, observe)
    if kept is not None:
        log.finish(course=kept, removed=kit.ensembles.removals(ensemble))


def rings(record: kit.Record) -> torch.Tensor:
    """Accuracies in %: [times, runs, rings]."""
    return 100 * torch.tensor([row["rings"] for row in record.final["course"]])


def ratios(record: kit.Record) -> torch.Tensor:
    """Mean effect of an outer point over that of an inner one: [times, runs]."""
    effects = torch.tensor([row["effects"] for row in record.final["course"]])
    return effects[..., 1] / effects[..., 0]


def steps_of(record: kit.Record) -> list[int]:
    """When the rings were looked at."""
    return [row["step"] for row in record.final["course"]]


def early(record: kit.Record, key: str) -> list[float]:
    """Mean of a ring, or of the ratio, over the measurements after the start until a step."""
    chosen = [place for place, own in enumerate(steps_of(record)) if 0 < own <= EARLY] or [-1]
    values = rings(record)[..., RINGS.index(key)] if key in RINGS else ratios(record)
    return [float(value) for value in values[chosen].mean(dim=0)]


def end(record: kit.Record, key: str) -> list[float]:
    """A ring after the last step."""
    found: list[float] = rings(record)[-1, :, RINGS.index(key)].tolist()
    return found


INNER, OUTER = (
    kit.Quantity(ring, f"{ring} ring, first 2,000 steps, %", 1, digits=1, read=early)
    for ring in ("inner", "outer")
)
RATIO = kit.Quantity("ratio", "effect of outer over inner points", read=early)
ENDS = [
    kit.Quantity(ring, f"{ring} ring, end, %", digits=1, read=end) for ring in ("inner", "outer")
]
FIRST = "test accuracy, first 2,000 steps, %"
POINTS = "{label}: effect of an outer data point over that of an inner one, first 2,000 steps"


def figures(records: kit.Records) -> dict[str, kit.Figure]:
    """Accuracy of each ring, and the ratio of effects, over steps."""
    count = len(records) + 1
    figure, axes = kit.panels((3.4 * count, 3.6), 1, count)
    axes[-1].set_yscale("log")
    for place, (axis, record) in enumerate(zip(axes, records.values(), strict=False)):
        steps, values = steps_of(record), rings(record)
        for ring, name in enumerate(RINGS):
            kit.band(axis, steps, values[..., ring].numpy(), color=kit.COLORS[ring], label=name)
        axis.set(title=record.label, xlabel="step", ylabel="test accuracy, %")
        axis.set(ylim=(0, 101))
        label = record.label
        kit.band(axes[-1], steps, ratios(record).numpy(), color=kit.COLORS[place], label=label)
    axes[-1].axhline(1.0, color="gray", linewidth=1)
    axes[-1].set(xlabel="step", ylabel="effect of outer over inner points")
    for axis in axes:
        axis.grid(alpha=0.3)
        axis.legend(fontsize="small")
    kit.say_bands(figure)
    return {"evolution": figure}


EXPERIMENT = kit.Experiment(
    name="partitioned-evolution",
    title="the course of a training on the two-turn spiral: inner and outer arms",
    phrase="the course of a training, arm by arm",
    source='thesis section 3.6, "Evolution"',
    claimed="""every method learns the outer part of the spirals first; single outer points move SGD
        more than inner ones, and AdLaLa about equally""",
    ours="""all settings: the text has no figure; the effect of a point is the norm of the gradient
        of its own loss""",
    settings_stated="""
        effect of a point | in words | norm of the gradient of its loss
        rings | in words | radii up to 1, 1.5 and 2.2
        steps, nodes, turns | not stated | {steps}, {hidden}, 2
        runs | not stated | {runs}
    """,
    scales=SCALES,
    jobs=METHODS,
    run=run,
    figures=figures,
    table=[kit.METHOD, INNER, OUTER, *ENDS, RATIO],
    claims=[
        *[
            kit.Ahead(
                OUTER,
                kit.Of(job, label="outer"),
                over=(kit.Of(job, INNER, "inner"),),
                text=f"{own['label']} learns the outer part first: {FIRST}",
            )
            for job, own in METHODS.items()
        ],
        kit.Inside(RATIO, "sgd", "more", low=1.0, text=POINTS),
        kit.Inside(RATIO, "adlala", "about equal", low=0.8, high=1.25, text=POINTS),
    ],
    note="The effect of a point is the norm of the gradient of its own loss",
    times={"smoke": "5 s", "laptop": "1 min", "full": "3 min"},
)
