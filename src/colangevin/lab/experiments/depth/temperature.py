"""Figure 4.8: a small temperature in the orthogonally constrained training of deep networks."""

from __future__ import annotations

from dataclasses import replace

from colangevin.lab import kit
from colangevin.lab.experiments.depth import depth
from colangevin.lab.experiments.depth.plot import draw_panels

NAME = "depth-temperature"
TEMPERATURES = {"tau-0": 0.0, "tau-1e-6": 1e-6}
SCALES = {
    "smoke": {**depth.TINY, "depths": [3]},
    "laptop": {**depth.PAPER, "runs": 2, "epochs": 1_000, "depths": [3]},
    "full": {**depth.PAPER, "runs": 5, "epochs": 1_000, "depths": [3, 5]},
}


def jobs(settings: kit.Settings) -> list[kit.Job]:
    """One job per depth and temperature."""
    return [
        depth.job(
            NAME,
            name,
            layers,
            {
                **settings,
                "orthogonal": True,
                "temperature": temperature,
                "label": f"τ = {temperature:g}",
            },
        )
        for layers in settings["depths"]
        for name, temperature in TEMPERATURES.items()
    ]


def panels(records: kit.Records) -> kit.Figure:
    """Figure 4.8: accuracies over time, a panel for each depth."""
    found: dict[str, dict[str, kit.Record]] = {}
    for record in records.values():
        title = f"{record.settings['depth']} hidden layers"
        found.setdefault(title, {})[record.label] = record
    return draw_panels(found, 3)


MEAN = replace(depth.LATE, label="mean over the training, %", read=kit.over_time)
EXPERIMENT = kit.Experiment(
    name=NAME,
    title="orthogonal weights with and without temperature on the four-turn spiral",
    phrase="orthogonal weights with temperature",
    source="figure 4.8 (paper: D2)",
    claimed="""a temperature of 1e-6 makes the training of orthogonal networks faster, and often a
        little better""",
    ours="""1,000 epochs, which are not stated, and two of the source's depths; speed is the mean
        accuracy over the training""",
    settings_stated="""
        temperatures | 0 and 1e-6 | {temperature}
        hidden layers | several | {depth}
        epochs | not stated | {epochs}
        network | 100 nodes a layer | {hidden} nodes a layer
        data | 500 training points, four turns | {train_points}, every run its own
        step size h, batch | 0.1, 5 % | {lr}, {batch_size} points
    """,
    reduced={"full": "two of the depths"},
    own_scale="",
    scales=SCALES,
    jobs=jobs,
    run=depth.run,
    figures={"accuracy": panels},
    table=[
        kit.Column("hidden layers", "depth"),
        kit.Column("τ", "temperature"),
        depth.LATE,
        MEAN,
        kit.VIOLATION,
    ],
    claims=[
        kit.Ahead(own, "tau-1e-6-{depth}", ["tau-0-{depth}"], text=text, each={"depth": (3, 5)})
        for own, text in (
            (MEAN, "speed: test accuracy over the whole training with {depth} hidden layers, %"),
            (depth.LATE, "test accuracy with {depth} hidden layers, %"),
        )
    ],
    note="The data are the same at both temperatures",
    gpus=True,
    times={"smoke": "5 s", "laptop": "2 min", "full": "10 min"},
)
