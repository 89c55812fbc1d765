"""Figures 3.11 and 3.12: LOL and AdLaLa beside Adam and SGLD on trigonometric data."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from colangevin.lab import kit
from colangevin.lab.experiments.partitioned import partitioned
from colangevin.lab.experiments.partitioned.partitioned import ACCURACY, LOSS

NAME = "partitioned-trigonometric"
FULL: dict[str, Any] = {
    "runs": 20,
    "hidden": 100,
    "train_points": 1_000,
    "test_points": 1_000,
    "batch_size": 50,
    "easy_steps": 20_000,
    "hard_steps": 100_000,
    "measurements": 200,
}
SCALES: dict[str, dict[str, Any]] = {
    "smoke": {
        **FULL,
        "runs": 2,
        "hidden": 6,
        "train_points": 100,
        "test_points": 40,
        "easy_steps": 10,
        "hard_steps": 10,
    },
    "laptop": {**FULL, "runs": 5, "easy_steps": 10_000, "hard_steps": 20_000},
    "full": FULL,
}
LOL = {"kind": "lol", "h": 0.1, "gamma": 0.01, "tau": 1e-3}
ADLALA = {"kind": "adlala", "h": 0.2, "sigma": 0.001, "tau": 1e-4, "gamma": 10.0, "epsilon": 0.1}
EASY = {
    "lol": {"label": "LOL", "method": LOL},
    "adlala": {"label": "AdLaLa", "method": ADLALA},
    "adam": {"label": "Adam", "method": {"kind": "adam", "h": 0.01}},
}
HARD = {
    "lol": {"label": "LOL", "method": LOL},
    "adlala": {"label": "AdLaLa", "method": {**ADLALA, "h": 0.1, "gamma": 5.0}},
    "sgld": {"label": "SGLD", "method": {"kind": "sgld", "h": 0.1, "sigma": 0.01}},
    "adam": {"label": "Adam", "method": {"kind": "adam", "h": 0.01}},
}
TARGET = 0.9


def jobs(settings: kit.Settings) -> list[kit.Job]:
    """One job per method, with a = 6 and with a = 10."""
    shared = {k: v for k, v in settings.items() if k not in ("easy_steps", "hard_steps")}
    found = []
    for part, scale, methods in (("easy", 6.0, EASY), ("hard", 10.0, HARD)):
        own = {
            "data": {"scale": scale, "frequency": 1.0, "noise": 0.02},
            "steps": settings[f"{part}_steps"],
        }
        found += [
            kit.Job(NAME, f"{part}-{name}", {**shared, **own, **method})
            for name, method in methods.items()
        ]
    return found


def steps_to(record: kit.Record, key: str = "test_accuracy") -> list[float]:
    """The first measured step at which each run has the accuracy; NaN if it never has.

    Example:
        >>> history = {"step": [0, 10], "test_accuracy": [[0.5, 0.5], [0.95, 0.8]]}
        >>> record = kit.Record("a", "b", 0, {}, history=history)
        >>> steps_to(record), censored(record)
        ([10.0, nan], [10.0, 10.0])
    """
    runs = zip(*record.series(key), strict=True)
    steps = record.history["step"]
    return [
        next((float(s) for s, value in zip(steps, run, strict=True) if value >= TARGET), math.nan)
        for run in runs
    ]


def censored(record: kit.Record, key: str = "test_accuracy") -> list[float]:
    """Steps to the accuracy; a run that does not reach it counts with its last step."""
    last = float(record.history["step"][-1])
    return [last if math.isnan(step) else step for step in steps_to(record, key)]


def reached(record: kit.Record) -> str:
    """Mean of the steps to the accuracy, and how many runs reach it."""
    steps = steps_to(record)
    found = [step for step in steps if math.isfinite(step)]
    mean = f"{sum(found) / len(found):,.0f}" if found else "never"
    return f"{mean} ({len(found)} of {len(steps)} runs)"


def best(record: kit.Record, key: str) -> list[float]:
    """The runs at the time at which their mean was highest."""
    return max(record.series(key), key=lambda row: kit.mean_std(row)[0])


def late_gain(record: kit.Record, key: str) -> list[float]:
    """How much a quantity rises in the last 60 % of the steps."""
    series = record.series(key)
    early = series[round(0.4 * (len(series) - 1))]
    return [b - a for a, b in zip(early, series[-1], strict=True)]


def ratio(records: kit.Records) -> list[kit.Claim]:
    """A ratio of two means; its runs are the ratio with what each adds to it, to first order."""
    if not {"easy-adam", "easy-adlala"} <= set(records):
        return []
    slower, faster = STEPS.of(records["easy-adam"]), STEPS.of(records["easy-adlala"])
    mean = kit.mean_std(faster.values)[0]
    times = kit.mean_std(slower.values)[0] / mean
    pairs = zip(slower.values, faster.values, strict=True)
    runs = kit.Measured("", [times + (a - times * b) / mean for a, b in pairs])
    text = "steps to 90 % test accuracy, a = 6: Adam over AdLaLa"
    claim = kit.number(text, "3 (almost)", runs, why=CENSORED)
    return [replace(claim, order=kit.answer([kit.lead(slower, faster)]))]


STEPS = kit.Quantity("test_accuracy", "steps to 90 % test accuracy", digits=0, read=censored)
BEST = replace(ACCURACY, read=best)
CENSORED = "runs that do not reach 90 % count with their last step"
LONG = "a = 10, 100,000 steps"
EXPERIMENT = kit.Experiment(
    name=NAME,
    title="LOL and AdLaLa beside Adam and SGLD on trigonometric data",
    phrase="LOL and AdLaLa, cosine against sine",
    source="thesis figures 3.11 and 3.12",
    claimed="""on trigonometric data Adam needs almost three times the steps of AdLaLa, and stops at
        73 % where LOL and AdLaLa go on""",
    ours="""20,000 steps with a = 6, Adam's h = 0.01 with a = 10, 20 runs; runs that do not reach 90
        % count with their last step""",
    settings_stated="""
        steps with a = 6 | not stated | 20,000
        Adam's h with a = 10 | not stated | 0.01
        runs | not stated | {runs}
        nodes, batch | 100, 5 % | {hidden}, {batch_size} of {train_points}
    """,
    scales=SCALES,
    jobs=jobs,
    run=partitioned.run,
    figures={
        "curves": kit.Curves(
            [LOSS, ACCURACY], {"a = 6": ("easy-*",), "a = 10": ("hard-*",)}, logarithmic=True
        )
    },
    table=[
        kit.Column("a", lambda record: f"{record.settings['data']['scale']:g}"),
        kit.METHOD,
        ACCURACY,
        LOSS,
        kit.Column("steps to 90 %", reached),
    ],
    claims=[
        ratio,
        kit.Ahead(
            STEPS, "easy-lol", over=("easy-adam",), text=f"{STEPS.label}, a = 6", why=CENSORED
        ),
        kit.Near(BEST, "hard-adam", "73", text=f"highest mean test accuracy of Adam, {LONG}, %"),
        kit.Inside(
            replace(ACCURACY, read=late_gain),
            "hard-adam",
            "stops to improve",
            high=2.0,
            text="gain of Adam's test accuracy in the last 60 % of the steps, a = 10, %",
        ),
        kit.Ahead(
            ACCURACY,
            "hard-{job}",
            over=("hard-adam", "hard-sgld"),
            text="test accuracy, a = 10, %",
            each={"job": ("lol", "adlala")},
        ),
    ],
    times={"smoke": "4 s", "laptop": "2 min", "full": "8 min"},
)
