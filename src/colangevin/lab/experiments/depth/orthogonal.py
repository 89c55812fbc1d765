"""Figure 4: orthogonality, hard and soft, in networks of 1 to 8 hidden layers."""

from __future__ import annotations

from colangevin.lab import kit
from colangevin.lab.experiments.depth import depth
from colangevin.lab.experiments.depth.plot import draw_depths, draw_panels

NAME = "depth-orthogonal"
EPOCHS = 1_000
SCALES = {
    "smoke": {**depth.TINY, "depths": [1, 4]},
    "laptop": {**depth.PAPER, "runs": 3, "epochs": EPOCHS, "depths": [4]},
    "full": {**depth.PAPER, "epochs": EPOCHS, "depths": list(range(1, 9))},
}
CONSTRAINED = "o-cola-od"
REST = [f"{method}-{{depth}}" for method in depth.METHODS if method != CONSTRAINED]


def jobs(settings: kit.Settings) -> list[kit.Job]:
    """One job per depth and method."""
    return [
        depth.job(NAME, method, layers, {**settings, **own})
        for layers in settings["depths"]
        for method, own in depth.METHODS.items()
    ]


def panels(records: kit.Records) -> kit.Figure:
    """Figure 4: accuracies over time, a panel for each method."""
    found: dict[str, dict[str, kit.Record]] = {}
    for record in records.values():
        found.setdefault(record.label, {})[f"{record.settings['depth']} HL"] = record
    return draw_panels(found, 4)


EXPERIMENT = kit.Experiment(
    name=NAME,
    title="orthogonality in networks of 1 to 8 hidden layers on the four-turn spiral",
    phrase="orthogonal weights in 1 to 8 hidden layers",
    source="figure 4 (thesis: 4.4)",
    claimed="""with more than three hidden layers, orthogonal weights reach a higher test accuracy
        than SGD, SGD from orthogonal weights, and SGD with a soft penalty""",
    ours="""1,000 epochs, which the source does not state; accuracies are means over the last tenth
        of the epochs""",
    settings_stated="""
        hidden layers | 1 to 8 | {depth}
        epochs | not stated | {epochs}
        network | 100 nodes a layer | {hidden} nodes a layer
        data | 500 training points, four turns | {train_points}, every run its own
        step size h, batch | 0.1, 5 % | {lr}, {batch_size} points
        penalty | 0.05 | 0.05
    """,
    scales=SCALES,
    jobs=jobs,
    run=depth.run,
    figures={"accuracy": panels, "depth": draw_depths},
    table=kit.Pivot(depth.LATE, ("depth", "hidden layers")),
    claims=[
        kit.Ahead(
            depth.LATE,
            f"{CONSTRAINED}-{{depth}}",
            REST,
            text="test accuracy with {depth} hidden layers, %",
            each={"depth": range(4, 9)},  # more than three, as the paper says
        )
    ],
    note="""Orthogonal initialisation and penalty, like the constraint, are for the weights between
        hidden layers; with one hidden layer there is none, and the four methods are the same.""",
    gpus=True,
    times={"smoke": "10 s", "laptop": "5 min", "full": "50 min"},
)
