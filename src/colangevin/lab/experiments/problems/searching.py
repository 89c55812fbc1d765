"""What the experiments on problems have in common: as many trials for a rival as for a constraint.

A method is a job. It is trained with each of its trials and one seed, the trial that is best on
validation data is chosen, and new seeds are trained with it. Only these are compared.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import torch

from colangevin.lab import kit

SEARCH, SEEDS = "search", "seeds"
"""Parts of a history: one row per trial, then one per new seed."""
COURSE = "course"
"""A column with a list per run: what was measured on the way."""
Planned: TypeAlias = tuple[str, int, int]
"""Part, trial and seed of a run."""
Plan: TypeAlias = Callable[[kit.Record], list[Planned]]
"""What is to be run, which may depend on what has been."""
Options: TypeAlias = Mapping[str, Any]
"""What differs between the trials of a method."""
Going: TypeAlias = Callable[[], bool]
"""Whether to go on; to be asked before every step."""
TrainAll: TypeAlias = Callable[
    [Sequence[Options], Sequence[int], str, Going], "Sequence[Mapping[str, Any]] | None"
]
"""Trains networks side by side; None where it did not go on."""
Train: TypeAlias = Callable[[Options, str, Going], "Mapping[str, float] | None"]
"""Trains one network, and measures it as far as its part needs; None where it did not go on."""


def jobs_of(
    name: str,
    methods: Mapping[str, kit.Settings],
    settings: kit.Settings,
    each: tuple[str, str] | None = None,
) -> list[kit.Job]:
    """One job per method with its trials, at a small scale the first that are ``tried``.

    Args:
        name: of the experiment.
        methods: what differs between the jobs.
        settings: of a scale.
        each: a setting with a list, and what one of them is called: one job for each, too.

    Example:
        >>> settings = {"tried": 1, "depths": [3, 5], "seed": 0}
        >>> own = jobs_of("x", {"sgd": {"trials": [{"lr": 1}, {"lr": 2}]}}, settings)
        >>> own[0].settings["trials"]
        [{'lr': 1}]
        >>> found = jobs_of("x", {"sgd": {"trials": []}}, settings, ("depths", "depth"))
        >>> [(job.name, job.settings["depth"]) for job in found]
        [('sgd-3', 3), ('sgd-5', 5)]
    """
    several, one = each or ("", "")
    common = {key: value for key, value in settings.items() if key not in ("tried", several)}
    ends = [(f"-{value}", {one: value}) for value in settings[several]] if each else [("", {})]
    return [
        kit.Job(name, f"{method}{end}", {**common, **own, "trials": trials, **at})
        for end, at in ends
        for method, own in methods.items()
        for trials in [own["trials"][: settings.get("tried")]]
    ]


def search(log: kit.Log, train: Train, key: str, sign: int = 1) -> None:
    """Train a method with its trials, choose one, and train new seeds with it.

    A run that is interrupted starts again from its beginning, those before it are kept.

    Args:
        log: of a job with ``trials``, a list of options, and ``runs``.
        train: trains one network.
        key: of the number, on validation data, by which a trial is chosen.
        sign: 1 if more of it is better, -1 if less is.
    """
    trials = log.job.settings["trials"]

    def plan(record: kit.Record) -> list[Planned]:
        best = _best(record, key, sign)
        return _planned(record.settings, best)

    if _carried_out(log, train, plan):
        best = _best(log.record, key, sign)
        log.finish(trial=best, **trials[best], **of_seeds(log.record))


def sweep(log: kit.Log, train: Train) -> None:
    """Train all seeds with all trials, to see which of them work.

    Args:
        log: as for ``search``.
        train: likewise.
    """
    if _carried_out(log, train, _all):
        log.finish()


def search_together(log: kit.Log, train: TrainAll, key: str, sign: int = 1) -> None:
    """As ``search``, for networks that are trained side by side: all trials, then all new seeds.

    Args:
        log: as for ``search``.
        train: trains networks, each with its options and its seed, and measures them.
        key: as for ``search``.
        sign: likewise.
    """

    def plan(record: kit.Record) -> list[Planned]:
        return _planned(record.settings, _best(record, key, sign))

    if _carried_out_together(log, train, plan):
        best = _best(log.record, key, sign)
        log.finish(trial=best, **log.job.settings["trials"][best], **of_seeds(log.record))


def sweep_together(log: kit.Log, train: TrainAll) -> None:
    """As ``sweep``, for networks that are trained side by side.

    Args:
        log: as for ``search``.
        train: as for ``search_together``.
    """
    if _carried_out_together(log, train, _all):
        log.finish()


def _all(record: kit.Record) -> list[Planned]:
    trials = range(len(record.settings["trials"]))
    return [(SEEDS, trial, seed) for trial in trials for seed in kit.seeds_of(record.settings)]


def _carried_out_together(log: kit.Log, train: TrainAll, plan: Plan) -> bool:
    """Make all runs of a part at once; False for an end."""
    log.load()
    while rest := (rows := plan(log.record))[_done(log) :]:
        stage = [row for row in rest if row[0] == rest[0][0]]
        options = [log.job.settings["trials"][trial] for _, trial, _ in stage]
        share = _done(log) / len(rows)
        seeds = [seed for *_, seed in stage]
        found = train(options, seeds, stage[0][0], partial(log.advance, share, dict))
        if found is None:
            return False
        for (part, trial, seed), own in zip(stage, found, strict=True):
            log.append(part=part, trial=trial, seed=seed, **own)
        if not log.advance(_done(log) / len(rows), dict):
            return False
    return True


def _done(log: kit.Log) -> int:
    return len(log.record.history.get("part", []))


def _carried_out(log: kit.Log, train: Train, plan: Plan) -> bool:
    """Make the runs of a plan, which may depend on those that are done; False for an end."""
    log.load()
    settings = log.job.settings
    while len(rows := plan(log.record)) > (done := _done(log)):
        part, trial, seed = rows[done]
        share = done / len(rows)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            found = train(settings["trials"][trial], part, partial(log.advance, share, dict))
        if found is None:
            return False
        log.append(part=part, trial=trial, seed=seed, **found)
        if not log.advance(share, dict):
            return False
    return True


def _best(record: kit.Record, key: str, sign: int) -> int:
    """The trial that is chosen, of those that are done."""
    values = record.history.get(key, [])[: len(record.settings["trials"])]
    return chosen([sign * _number(value) for value in values])


def _planned(settings: kit.Settings, best: int) -> list[Planned]:
    """All runs of a search; the trial of the new seeds is known once all trials are done."""
    first = 1000 * settings["seed"] + kit.RUNS
    trials = [(SEARCH, trial, first) for trial in range(len(settings["trials"]))]
    return trials + [(SEEDS, best, seed) for seed in kit.seeds_of(settings)]


def chosen(values: Sequence[float]) -> int:
    """The place of the largest number; one that is no number is the last choice.

    Example:
        >>> chosen([0.1, math.nan, 0.3])
        2
    """
    ranks = [-math.inf if math.isnan(value) else value for value in values]
    return ranks.index(max(ranks)) if ranks else 0


def _number(value: float | None) -> float:
    return math.nan if value is None else value


def of_seeds(record: kit.Record) -> dict[str, list[Any]]:
    """What the new seeds found, by name.

    Example:
        >>> history = {"part": ["search", "seeds", "seeds"], "accuracy": [0.9, 0.8, 0.7]}
        >>> of_seeds(kit.Record("a", "b", 0, {}, history=history))
        {'accuracy': [0.8, 0.7]}
    """
    rows = [row for row, part in enumerate(record.history["part"]) if part == SEEDS]
    plan = ("part", "trial", "seed", COURSE)
    names = [name for name in record.history if name not in plan]
    return {name: [record.history[name][row] for row in rows] for name in names}


def searched(record: kit.Record, key: str) -> list[tuple[Options, float]]:
    """The trials and what they reached.

    Example:
        >>> history = {"part": ["search", "seeds"], "accuracy": [0.9, None]}
        >>> searched(kit.Record("a", "b", 0, {"trials": [{"lr": 1}]}, history=history), "accuracy")
        [({'lr': 1}, 0.9)]
    """
    trials = record.settings["trials"]
    values = record.history[key][: len(trials)]
    return [(own, _number(value)) for own, value in zip(trials, values, strict=True)]


def trial_text(record: kit.Record) -> str:
    """The trial that was chosen.

    Example:
        >>> settings = {"trials": [{"lr": 0.1, "decay": 0.01}]}
        >>> trial_text(kit.Record("a", "b", 0, settings, final={"trial": 0}))
        'lr 0.1, decay 0.01'
    """
    options = record.settings["trials"][record.final["trial"]]
    return ", ".join(f"{name.replace('_', ' ')} {value:g}" for name, value in options.items())


CHOSEN = kit.Column("chosen", lambda own: f"{trial_text(own)} (of {len(own.settings['trials'])})")
