"""Figure 3.13: overfitting on a noisy two-turn spiral with few training points."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from colangevin.lab import kit
from colangevin.lab.experiments.partitioned import partitioned
from colangevin.lab.experiments.partitioned.partitioned import ACCURACY, LOSS
from colangevin.lab.experiments.partitioned.plot import draw_curves

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "partitioned-overfitting"
BAR = 0.05
"""A test loss that rises by more counts as risen, whatever the method; the thesis has no number."""
FULL: dict[str, Any] = {
    "runs": 5,
    "hidden": 500,
    "train_points": 200,
    "test_points": 4_000,
    "batch_size": 10,
    "steps": 100_000,
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


def jobs(settings: kit.Settings) -> list[kit.Job]:
    """One job per method."""
    return [kit.Job(NAME, name, {**settings, **own}) for name, own in METHODS.items()]


def rise(record: kit.Record) -> list[float]:
    """For each run, how much the test loss has risen at the end: 0 for one that only falls.

    It is the mean over the last tenth, minus the lowest mean over as many measurements.

    Example:
        >>> history = {"test_loss": [[0.7, 0.7], [0.2, 0.5], [0.5, 0.2]]}
        >>> [round(value, 6) for value in rise(kit.Record("a", "b", 0, {}, history=history))]
        [0.3, 0.0]
    """
    runs = [list(run) for run in zip(*record.series("test_loss"), strict=True)]
    return [_rise(run, max(1, len(run) // 10)) for run in runs]


def _rise(losses: Sequence[float], width: int) -> float:
    starts = range(len(losses) - width + 1)
    means = [math.fsum(losses[start : start + width]) / width for start in starts]
    return means[-1] - min(means)


def figures(records: kit.Records) -> dict[str, Figure]:
    """Test and training loss, and test accuracy, over steps."""
    rows = {"two turns, noise 0.1, 200 training points": list(records.values())}
    return {"curves": draw_curves(rows, ("test_loss", "train_loss", "test_accuracy"))}


def table(records: kit.Records) -> kit.Table:
    """Losses at the end, and their rise."""
    rows = [
        [
            record.settings["label"],
            ACCURACY.text(record),
            LOSS.text(record),
            kit.Measured("", rise(record)).text(3),
            f"{kit.mean_std(record.values('train_loss'))[0]:.4f}",
        ]
        for record in records.values()
    ]
    columns = ["method", "test accuracy, %", "test loss", "rise of the test loss", "training loss"]
    return kit.Table(columns, rows)


def claims(records: kit.Records) -> list[kit.Claim]:
    """SGD's test loss rises; LOL's and AdLaLa's do not."""
    if "sgd" not in records:
        return []
    rises = {name: kit.Measured(own.settings["label"], rise(own)) for name, own in records.items()}
    text = "rise of SGD's test loss after its lowest value"
    found = [kit.inside(text, "rises", rises["sgd"], low=BAR, digits=3)]
    for name in ("lol", "adlala"):
        if name in rises:
            own = rises[name]
            text = f"rise of {own.label}'s test loss after its lowest value"
            found.append(kit.inside(text, "does not rise", own, high=BAR, digits=3))
            found.append(kit.ahead("rise of the test loss", own, [rises["sgd"]], sign=-1, digits=3))
    return found


EXPERIMENT = kit.Experiment(
    name=NAME,
    title="overfitting of SGD, Adam, LOL and AdLaLa on a noisy two-turn spiral",
    phrase="overfitting on a noisy spiral",
    source="thesis figure 3.13",
    claimed="on few noisy points SGD's test loss rises in time, those of LOL and AdLaLa do not",
    ours="batches of 5 %, 100,000 steps and 5 runs; a rise counts from 0.05 on",
    settings_stated=(
        ("steps", "not stated", "{steps}"),
        ("batch", "not stated", "{batch_size} of {train_points}"),
        ("runs", "not stated", "{runs}"),
        ("what counts as a rise", "no number", "0.05"),
        ("noise", "0.1", "0.1"),
        ("nodes", "500", "{hidden}"),
    ),
    scales=SCALES,
    jobs=jobs,
    run=partitioned.run,
    figures=figures,
    table=table,
    claims=claims,
    note="Ours, because the text does not state them: batches of 5 %, 100,000 steps, 5 runs. "
    "A rise is the mean loss over the last tenth minus the lowest mean over as long a time",
    times={"smoke": "4 s", "laptop": "1 min", "full": "6 min"},
)
