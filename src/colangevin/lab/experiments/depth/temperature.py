"""Figure 4.8: a small temperature in the orthogonally constrained training of deep networks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from colangevin.lab import kit
from colangevin.lab.experiments.depth import depth
from colangevin.lab.experiments.depth.plot import draw_panels

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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


def _pairs(records: kit.Records) -> dict[int, dict[str, kit.Record]]:
    found: dict[int, dict[str, kit.Record]] = {}
    for record in records.values():
        found.setdefault(record.settings["depth"], {})[record.label] = record
    return found


def figures(records: kit.Records) -> dict[str, Figure]:
    """Figure 4.8."""
    panels = {f"{layers} hidden layers": own for layers, own in _pairs(records).items()}
    return {"accuracy": draw_panels(panels, 3)}


def table(records: kit.Records) -> kit.Table:
    """Accuracies at the end and over the whole training."""
    rows = [
        [
            str(record.settings["depth"]),
            f"{record.settings['temperature']:g}",
            kit.Measured("", kit.late(record, "test_accuracy", 100.0)).text(1),
            kit.Measured("", kit.over_time(record, "test_accuracy", 100.0)).text(1),
            f"{record.final['violation']:.0e}" if record.final["violation"] else "–",
        ]
        for record in records.values()
    ]
    columns = ["hidden layers", "τ", "test accuracy, %", "mean over the training, %", "violation"]
    return kit.Table(columns, rows)


def claims(records: kit.Records) -> list[kit.Claim]:
    """Noise makes training faster, and often a little better at the end."""
    found = []
    for layers, own in _pairs(records).items():
        if len(own) < len(TEMPERATURES):
            continue
        for text, measure in (
            ("speed: test accuracy over the whole training", kit.over_time),
            ("test accuracy", kit.late),
        ):
            cold, warm = (
                kit.Measured(label, measure(record, "test_accuracy", 100.0))
                for label, record in own.items()
            )
            text = f"{text} with {layers} hidden layers, %"
            found.append(kit.ahead(text, warm, [cold], digits=1, chance=kit.COIN))
    return found


EXPERIMENT = kit.Experiment(
    name=NAME,
    title="orthogonal weights with and without temperature on the four-turn spiral",
    phrase="orthogonal weights with temperature",
    source="figure 4.8 (paper: D2)",
    claimed=(
        "a temperature of 1e-6 makes the training of orthogonal networks faster, and often a "
        "little better"
    ),
    ours=(
        "1,000 epochs, which are not stated, and two of the source's depths; speed is the "
        "mean accuracy over the training"
    ),
    settings_stated=(
        ("temperatures", "0 and 1e-6", "{temperature}"),
        ("hidden layers", "several", "{depth}"),
        ("epochs", "not stated", "{epochs}"),
        ("network", "100 nodes a layer", "{hidden} nodes a layer"),
        ("data", "500 training points, four turns", "{train_points}, every run its own"),
        ("step size h, batch", "0.1, 5 %", "{lr}, {batch_size} points"),
    ),
    reduced={"full": "two of the depths"},
    own_scale="",
    scales=SCALES,
    jobs=jobs,
    run=depth.run,
    figures=figures,
    table=table,
    claims=claims,
    note=(
        "The paper does not say how many epochs it trains for; full takes 1,000, and two of its "
        "depths. Every run draws its own data, the same at both temperatures. Speed is measured "
        "by the mean of the test accuracy over the whole training, accuracy by its mean over the "
        "last tenth of the epochs."
    ),
    gpus=True,
    times={"smoke": "5 s", "laptop": "2 min", "full": "10 min"},
)
