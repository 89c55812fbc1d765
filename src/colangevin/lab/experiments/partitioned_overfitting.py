"""Figure 3.13: overfitting on a noisy two-turn spiral with few training points."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from colangevin.lab.experiments import partitioned
from colangevin.lab.experiments.comparing import Measured, ahead, late
from colangevin.lab.experiments.experiment import (
    NOT_REPRODUCED,
    ORDERING,
    REPRODUCED,
    Claim,
    Experiment,
    Job,
    Settings,
    Table,
)
from colangevin.lab.experiments.partitioned import ACCURACY, LOSS
from colangevin.lab.experiments.partitioned_plot import draw_curves
from colangevin.lab.experiments.records import Record, Records, mean_std

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "partitioned-overfitting"
FULL: dict[str, Any] = {
    "runs": 5,
    "hidden": 500,
    "train_points": 200,
    "test_points": 4_000,
    "batch_size": 10,
    "steps": 20_000,
    "data": {"turns": 2.0, "noise": 0.1},
}
SCALES: dict[str, dict[str, Any]] = {
    "smoke": {**FULL, "runs": 2, "hidden": 6, "test_points": 50, "steps": 40},
    "laptop": {**FULL, "runs": 3, "steps": 5_000},
    "full": FULL,
}
METHODS: dict[str, dict[str, Any]] = {
    "sgd": {"label": "SGD", "method": {"kind": "sgd", "h": 0.1}},
    "adam": {"label": "Adam", "method": {"kind": "adam", "h": 0.005}},
    "lol": {"label": "LOL", "method": {"kind": "lol", "h": 0.1, "gamma": 1.0, "tau": 1e-6}},
    "adlala": {
        "label": "AdLaLa",
        "method": {
            "kind": "adlala",
            "h": 0.1,
            "sigma": 0.01,
            "tau": 1e-4,
            "tau2": 1e-8,
            "gamma": 1000.0,
            "epsilon": 0.1,
        },
    },
}


def jobs(settings: Settings) -> list[Job]:
    """One job per method."""
    return [Job(NAME, name, {**settings, **own}) for name, own in METHODS.items()]


def rise(record: Record) -> list[float]:
    """For each run, how much the test loss rises from its lowest value to the last tenth.

    Example:
        >>> history = {"test_loss": [[0.7], [0.2], [0.5]]}
        >>> [round(value, 6) for value in rise(Record("a", "b", 0, {}, history=history))]
        [0.3]
    """
    lowest = [min(run) for run in zip(*record.series("test_loss"), strict=True)]
    return [end - low for end, low in zip(late(record, "test_loss"), lowest, strict=True)]


def figures(records: Records) -> dict[str, Figure]:
    """Test and training loss, and test accuracy, over steps."""
    rows = {"two turns, noise 0.1, 200 training points": list(records.values())}
    return {"curves": draw_curves(rows, ("test_loss", "train_loss", "test_accuracy"))}


def table(records: Records) -> Table:
    """Losses at the end, and their rise."""
    rows = [
        [
            record.settings["label"],
            ACCURACY.text(record),
            LOSS.text(record),
            Measured("", rise(record)).text(3),
            f"{mean_std(record.values('train_loss'))[0]:.4f}",
        ]
        for record in records.values()
    ]
    columns = ["method", "test accuracy, %", "test loss", "rise of the test loss", "training loss"]
    return Table(columns, rows)


def claims(records: Records) -> list[Claim]:
    """SGD's test loss rises; LOL's and AdLaLa's do not."""
    found = []
    if "sgd" in records:
        mean, deviation, runs = mean_std(rise(records["sgd"]))
        clear = mean > 2 * deviation / max(runs, 1) ** 0.5 and mean > 0.05
        text = "rise of SGD's test loss from its lowest value"
        found.append(
            Claim(
                text,
                "rises",
                Measured("", rise(records["sgd"])).text(3),
                REPRODUCED if clear else NOT_REPRODUCED,
                "taken as more than 0.05",
            )
        )
    for name in ("lol", "adlala"):
        if name in records and "sgd" in records:
            own = records[name]
            mean = mean_std(rise(own))[0]
            others = [Measured(records["sgd"].settings["label"], rise(records["sgd"]))]
            label = own.settings["label"]
            claim = ahead(
                "rise of the test loss", Measured(label, rise(own)), others, sign=-1, digits=3
            )
            verdict = claim.verdict
            if verdict == REPRODUCED and mean > 0.05:
                verdict = ORDERING
            stated = f"{label}'s does not rise"
            why = claim.why or ("" if mean <= 0.05 else "less than SGD's, but more than 0.05")
            found.append(Claim(claim.text, stated, claim.ours, verdict, why))
    return found


EXPERIMENT = Experiment(
    name=NAME,
    title="overfitting of SGD, Adam, LOL and AdLaLa on a noisy two-turn spiral",
    source="thesis figure 3.13",
    scales=SCALES,
    jobs=jobs,
    run=partitioned.run,
    figures=figures,
    table=table,
    claims=claims,
    note="Ours, because the text does not state them: batches of 5 %, 20,000 steps, 5 runs",
    times={"smoke": "4 s", "laptop": "1 min", "full": "3 min"},
)
