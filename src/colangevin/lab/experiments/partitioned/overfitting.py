"""Figure 3.13: overfitting on a noisy two-turn spiral with few training points."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from colangevin.lab import kit
from colangevin.lab.experiments.partitioned import partitioned
from colangevin.lab.experiments.partitioned.partitioned import ACCURACY, LOSS

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
ADLALA = {"kind": "adlala", "h": 0.1, "sigma": 0.01, "tau": 1e-4, "tau2": 1e-8, "epsilon": 0.1}
METHODS: dict[str, dict[str, Any]] = {
    "sgd": {"label": "SGD", "method": {"kind": "sgd", "h": 0.1}},
    "adam": {"label": "Adam", "method": {"kind": "adam", "h": 0.005}},
    "lol": {"label": "LOL", "method": {"kind": "lol", "h": 0.1, "gamma": 1.0, "tau": 1e-6}},
    "adlala": {"label": "AdLaLa", "method": {**ADLALA, "gamma": 1000.0}},
}


def rise(record: kit.Record, key: str) -> list[float]:
    """For each run, how much a loss has risen at the end: 0 for one that only falls.

    It is the mean over the last tenth, minus the lowest mean over as many measurements.

    Example:
        >>> history = {"test_loss": [[0.7, 0.7], [0.2, 0.5], [0.5, 0.2]]}
        >>> found = rise(kit.Record("a", "b", 0, {}, history=history), "test_loss")
        >>> [round(value, 6) for value in found]
        [0.3, 0.0]
    """
    runs = [list(run) for run in zip(*record.series(key), strict=True)]
    return [_rise(run, max(1, len(run) // 10)) for run in runs]


def _rise(losses: Sequence[float], width: int) -> float:
    starts = range(len(losses) - width + 1)
    means = [math.fsum(losses[start : start + width]) / width for start in starts]
    return means[-1] - min(means)


RISE = kit.Quantity("test_loss", "rise of the test loss", digits=3, read=rise)
TRAIN = replace(LOSS, key="train_loss", label="training loss", digits=4)
EXPERIMENT = kit.Experiment(
    name="partitioned-overfitting",
    title="overfitting of SGD, Adam, LOL and AdLaLa on a noisy two-turn spiral",
    phrase="overfitting on a noisy spiral",
    source="thesis figure 3.13",
    claimed="on few noisy points SGD's test loss rises in time, those of LOL and AdLaLa do not",
    ours="batches of 5 %, 100,000 steps and 5 runs; a rise counts from 0.05 on",
    settings_stated="""
        steps | not stated | {steps}
        batch | not stated | {batch_size} of {train_points}
        runs | not stated | {runs}
        what counts as a rise | no number | 0.05
        noise | 0.1 | 0.1
        nodes | 500 | {hidden}
    """,
    scales=SCALES,
    jobs=METHODS,
    run=partitioned.run,
    figures={"curves": kit.Curves([LOSS, TRAIN, ACCURACY], logarithmic=True)},
    table=[kit.METHOD, ACCURACY, LOSS, RISE, TRAIN],
    claims=[
        kit.Inside(RISE, "sgd", "rises", low=BAR, text="{label}: rise of the test loss"),
        kit.Inside(
            RISE,
            "{job}",
            "does not rise",
            high=BAR,
            text="{label}: rise of the test loss",
            each={"job": ("lol", "adlala")},
        ),
        kit.Ahead(RISE, "{job}", over=("sgd",), each={"job": ("lol", "adlala")}),
    ],
    note="A rise is the mean loss over the last tenth minus the lowest mean over as long a time",
    times={"smoke": "4 s", "laptop": "1 min", "full": "6 min"},
)
