"""Figure 4: orthogonality, hard and soft, in networks of 1 to 8 hidden layers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from colangevin.lab import kit
from colangevin.lab.experiments.depth import depth
from colangevin.lab.experiments.depth.plot import draw_depths, draw_panels

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "depth-orthogonal"
EPOCHS = 1_000
SCALES = {
    "smoke": {**depth.TINY, "depths": [1, 4]},
    "laptop": {**depth.PAPER, "runs": 3, "epochs": EPOCHS, "depths": [4]},
    "full": {**depth.PAPER, "epochs": EPOCHS, "depths": list(range(1, 9))},
}
CONSTRAINED = "o-cola-od"
DEEP = 3
"""The paper's claim is for more hidden layers than this."""


def jobs(settings: kit.Settings) -> list[kit.Job]:
    """One job per depth and method."""
    return [
        depth.job(NAME, method, layers, {**settings, **own})
        for layers in settings["depths"]
        for method, own in depth.METHODS.items()
    ]


def figures(records: kit.Records) -> dict[str, Figure]:
    """Figure 4, and accuracy against depth."""
    panels: dict[str, dict[str, kit.Record]] = {}
    for record in records.values():
        own = panels.setdefault(record.label, {})
        own[f"{record.settings['depth']} HL"] = record
    return {"accuracy": draw_panels(panels, 4), "depth": draw_depths(_by_method(records))}


def _by_method(records: kit.Records) -> dict[str, dict[int, kit.Measured]]:
    found: dict[str, dict[int, kit.Measured]] = {}
    for record in records.values():
        label, layers = record.label, record.settings["depth"]
        accuracy = kit.Measured(label, kit.late(record, "test_accuracy", 100.0))
        found.setdefault(label, {})[layers] = accuracy
    return found


def table(records: kit.Records) -> kit.Table:
    """Accuracies at the end, one row per depth."""
    found = _by_method(records)
    layers = sorted({record.settings["depth"] for record in records.values()})
    rows = [
        [str(count), *(own[count].text(1) if count in own else "–" for own in found.values())]
        for count in layers
    ]
    return kit.Table(["hidden layers", *found], rows)


def claims(records: kit.Records) -> list[kit.Claim]:
    """The ordering that the paper states for each depth beyond three hidden layers."""
    found = _by_method(records)
    best = found.pop(depth.METHODS[CONSTRAINED]["label"], {})
    return [
        kit.ahead(
            f"test accuracy with {count} hidden layers, %",
            best[count],
            [own[count] for own in found.values() if count in own],
            digits=1,
            chance=kit.COIN,
        )
        for count in best
        if count > DEEP
    ]


EXPERIMENT = kit.Experiment(
    name=NAME,
    title="orthogonality in networks of 1 to 8 hidden layers on the four-turn spiral",
    phrase="orthogonal weights in 1 to 8 hidden layers",
    source="figure 4 (thesis: 4.4)",
    claimed=(
        "with more than three hidden layers, orthogonal weights reach a higher test accuracy "
        "than SGD, SGD from orthogonal weights, and SGD with a soft penalty"
    ),
    ours=(
        "1,000 epochs, which the source does not state; accuracies are means over the last "
        "tenth of the epochs"
    ),
    settings_stated=(
        ("hidden layers", "1 to 8", "{depth}"),
        ("epochs", "not stated", "{epochs}"),
        ("network", "100 nodes a layer", "{hidden} nodes a layer"),
        ("data", "500 training points, four turns", "{train_points}, every run its own"),
        ("step size h, batch", "0.1, 5 %", "{lr}, {batch_size} points"),
        ("penalty", "0.05", "0.05"),
    ),
    scales=SCALES,
    jobs=jobs,
    run=depth.run,
    figures=figures,
    table=table,
    claims=claims,
    note=(
        f"The paper does not say how many epochs it trains for; full takes {EPOCHS:,}. Every run "
        "draws its own data. Accuracies in table and verdicts are means over the last tenth of "
        "the epochs. Orthogonal initialisation and penalty, like the constraint, are for the "
        "weights between hidden layers; with one hidden layer there is none, and the four "
        "methods are the same."
    ),
    gpus=True,
    times={"smoke": "10 s", "laptop": "5 min", "full": "50 min"},
)
