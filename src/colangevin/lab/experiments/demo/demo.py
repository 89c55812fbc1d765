"""What ``cola demo`` runs: two effects of the paper, small enough for about two minutes.

1. Figure 4: a deep network on the four-turn spiral. SGD does not learn it; with orthogonal
   weights between the hidden layers it is learned.
2. Figure 2: a wide network on the two-turn spiral. The test loss of SGD rises while it overfits;
   bounded weights with some noise (C-SGLD) keep it low. Weight decay and the best epoch of SGD
   are there, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch

from colangevin.ensemble import Ensemble
from colangevin.lab import kit
from colangevin.lab.experiments.depth import depth
from colangevin.lab.experiments.spirals import regions, spiral
from colangevin.lab.experiments.spirals.spiral import Points

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "demo"
SPIRAL = {**spiral.PAPER, "part": "spiral", "runs": 16, "epochs": 1_500, "lr": 0.1}
DEPTH = {**depth.PAPER, "part": "depth", "runs": 8, "epochs": 800, "hidden": 50, "depth": 8}
SCALES = {NAME: {"runs": SPIRAL["runs"], "parts": [SPIRAL, DEPTH]}}
SIGNIFICANT = 0.05


@dataclass(frozen=True)
class Effect:
    """Two methods on one task, and the number by which they are compared.

    Attributes:
        part: key of the task in the settings.
        subject: what it is about, in one word.
        task: what is measured, for the table.
        finding: what is seen if the difference is significant.
        plain: the method without a constraint: name and settings of its job.
        constrained: the method with one.
        rival: another method without one, if there is any, for the curves.
        key: of the number in the history.
        sign: 1 if more is better, -1 if less is.
        factor: to multiply it with.
        digits: after the point.
    """

    part: str
    subject: str
    task: str
    finding: str
    plain: tuple[str, dict[str, Any]]
    constrained: tuple[str, dict[str, Any]]
    rival: tuple[str, dict[str, Any]] | None
    key: str
    sign: int
    factor: float
    digits: int


OVERFITTING = Effect(
    "spiral",
    "Overfitting",
    "2. test loss",
    "bounded weights with noise (C-SGLD) overfit less than SGD",
    ("spiral-sgd", spiral.METHODS["sgd"]),
    ("spiral-c-sgld", spiral.METHODS["c-sgld"]),
    ("spiral-sgd-wd", {**spiral.METHODS["sgd-wd"], "label": "SGD, weight decay 1e-4"}),
    *("test_loss", -1, 1.0, 3),
)
DEEP = Effect(
    "depth",
    "Depth",
    "1. test accuracy, %",
    f"{DEPTH['depth']} hidden layers with orthogonal weights learn what SGD does not",
    ("deep-sgd", depth.METHODS["sgd"]),
    ("deep-orthogonal", {**depth.METHODS["o-cola-od"], "label": "orthogonal"}),
    None,
    *("test_accuracy", 1, 100.0, 1),
)
EFFECTS = (DEEP, OVERFITTING)


def methods(effect: Effect) -> list[tuple[str, dict[str, Any]]]:
    """Names and settings of the jobs of an effect."""
    found = [effect.plain, effect.constrained]
    return found if effect.rival is None else [*found, effect.rival]


def jobs(settings: kit.Settings) -> list[kit.Job]:
    """All jobs, the longest first, so that two processes end at about the same time."""
    shared = {key: settings[key] for key in ("scale", "seed")}
    parts = {part["part"]: part for part in settings["parts"]}
    order = [DEEP.constrained, *methods(OVERFITTING), DEEP.plain]
    of = {name: effect.part for effect in EFFECTS for name, _ in methods(effect)}
    return [kit.Job(NAME, name, {**shared, **parts[of[name]], **own}) for name, own in order]


@dataclass(frozen=True)
class _Task:
    """An ensemble, its data, and how to measure it."""

    ensemble: Ensemble
    points: Points
    measure: Callable[[Ensemble, Points], dict[str, torch.Tensor]]

    @classmethod
    def of(cls, settings: kit.Settings) -> _Task:
        seeds = kit.seeds_of(settings)
        if settings["part"] == "depth":
            made = depth.make(settings, seeds, settings["lr"])
            return cls(made, depth.draw_points(settings, seeds), depth.measure)
        made = spiral.make(settings, seeds, settings.get("radii"), settings.get("temperature", 0.0))
        return cls(made, spiral.draw_points(settings, seeds), spiral.measure)

    def measured(self) -> dict[str, torch.Tensor]:
        return self.measure(self.ensemble, self.points)

    def typical(self) -> int | None:
        """The member whose test accuracy is the median one; None if there is no member left."""
        members = self.ensemble
        if not members.active:
            return None
        last = self.measured()["test_accuracy"]
        place = int(last.argsort()[(len(last) - 1) // 2])
        return members.active[place]

    def final(self) -> dict[str, Any]:
        """What the picture and the table need beside the history."""
        members = self.ensemble
        extent = 1.05 * float(self.points.test_inputs[0].abs().max())
        seed = self.typical()
        shown = None
        if seed is not None:
            own = Points(*(tensor[seed : seed + 1] for tensor in self.points))
            shown = regions.picture(members.member(seed), own, round(extent, 2))
        return {
            "seed": seed,
            "violation": kit.ensembles.worst_violation(members),
            "removed": kit.ensembles.removals(members),
            "picture": shown,
        }


def run(job: kit.Job, log: kit.Log) -> None:
    """Train all runs of a method as one ensemble."""
    task = _Task.of(job.settings)
    training = kit.ensembles.Training(
        loss=spiral.loss,
        inputs=task.points.train_inputs,
        targets=task.points.train_labels,
        batch_size=job.settings["batch_size"],
        epochs=job.settings["epochs"],
        points=spiral.HISTORY_POINTS,
        measure=lambda members: task.measured(),
        per_member=True,
    )
    if kit.ensembles.train(task.ensemble, training, log):
        log.finish(**task.final())


def so_far(job: kit.Job, log: kit.Log) -> kit.Record | None:
    """The record of a job that was stopped, with the results of its networks as they are.

    Returns:
        None if the job has not been begun. Nothing is written: the job can still go on.
    """
    saved = log.load()
    if saved is None:
        return None
    task = _Task.of(job.settings)
    task.ensemble.load_state_dict(saved["ensemble"])
    if log.record.history["epoch"][-1] < task.ensemble.epochs:
        everyone = kit.ensembles.everyone
        found = {name: everyone(task.ensemble, v) for name, v in task.measured().items()}
        log.append(epoch=task.ensemble.epochs, **found)
    return replace(log.record, final=kit.plain(task.final()))


def chance(gains: Sequence[float]) -> float:
    """How likely a mean gain as far from 0 is, if every gain could as well have the other sign.

    All 2ⁿ choices of signs are counted (an exact randomisation test, two-sided).

    Args:
        gains: differences of two methods, one per seed; up to about 20 of them.

    Example:
        >>> chance([1.0, 2.0, 1.5, 0.5]), chance([1.0, -1.0])
        (0.125, 1.0)
    """
    sums = torch.zeros(1, dtype=torch.float64)
    for gain in gains:
        sums = torch.cat([sums + gain, sums - gain])
    limit = abs(sum(gains)) * (1 - 1e-12)
    return float((sums.abs() >= limit).double().mean())


def measured(effect: Effect, records: kit.Records) -> tuple[kit.Measured, kit.Measured] | None:
    """What both methods reached, one number per seed; None if one of them has no record."""
    pair = [records.get(name) for name, _ in (effect.plain, effect.constrained)]
    if pair[0] is None or pair[1] is None:
        return None
    first, second = (
        kit.Measured(record.label, kit.late(record, effect.key, effect.factor))
        for record in pair
        if record is not None
    )
    return first, second


def stopped(effect: Effect, records: kit.Records) -> str | None:
    """Where the methods of an effect were stopped, in words; None if both are complete.

    Example:
        >>> stopped(DEEP, kit.Records([]))
        'Depth: not begun'
    """
    methods = [(records.get(name), own) for name, own in (effect.plain, effect.constrained)]
    begun = [record for record, _ in methods if record is not None]
    if len(begun) == 2 and all(record.complete for record in begun):
        return None
    if not begun:
        return f"{effect.subject}: not begun"
    reached = [f"at epoch {r.history['epoch'][-1]:,} of {r.settings['epochs']:,}" for r in begun]
    if len(begun) == 2 and len(set(reached)) == 1:
        return f"{effect.subject}: stopped {reached[0]}"
    places = iter(reached)
    parts = [f"{own['label']} {next(places) if record else 'not begun'}" for record, own in methods]
    return f"{effect.subject}: stopped; {', '.join(parts)}"


def significance(effect: Effect, records: kit.Records) -> float:
    """The chance of the gain; 1 if it is none, or was not measured."""
    pair = measured(effect, records)
    if pair is None:
        return 1.0
    gains = [effect.sign * (b - a) for a, b in zip(pair[0].values, pair[1].values, strict=True)]
    finite = [gain for gain in gains if gain == gain]
    return chance(finite) if finite and sum(finite) > 0 and len(finite) == len(gains) else 1.0


def table(records: kit.Records) -> kit.Table:
    """Both effects: each method, the gain per seed with its standard error, and its chance."""
    rows = []
    for effect in EFFECTS:
        pair = measured(effect, records)
        if pair is None:
            continue
        gain, digits = kit.lead(pair[1], pair[0], effect.sign), effect.digits
        by = effect.sign * gain.by
        rows.append(
            [
                effect.task,
                *(mean_and_spread(one.values, digits) for one in pair),
                f"{by:+.{digits}f} ± {gain.error:.{digits}f}",
                f"{gain.wins} of {gain.runs}",
                f"{significance(effect, records):.2g}",
            ]
        )
    return kit.Table(["", "SGD", "constrained", "difference", "better in", "p"], rows)


def mean_and_spread(values: Sequence[float], digits: int) -> str:
    """Mean ± standard deviation of the runs that did not diverge.

    Example:
        >>> mean_and_spread([90.0, 94.0], 1)
        '92.0 ± 2.8'
    """
    mean, deviation, _ = kit.mean_std(values)
    return f"{mean:.{digits}f} ± {deviation:.{digits}f}"


def claims(records: kit.Records) -> list[kit.Claim]:
    """None: the demo is no measurement of the paper."""
    return []


def figures(records: kit.Records) -> dict[str, Figure]:
    """The demo's picture."""
    from colangevin.lab.experiments.demo.plot import draw

    return {NAME: draw(records)}


EXPERIMENT = kit.Experiment(
    name=NAME,
    title="overfitting and depth: two effects of constraints, in about two minutes",
    source="figures 2 and 4",
    scales=SCALES,
    jobs=jobs,
    run=run,
    figures=figures,
    table=table,
    claims=claims,
    note=(
        f"Reduced against the paper: {SPIRAL['runs']} seeds of {spiral.PAPER['runs']}, "
        f"{SPIRAL['epochs']:,} epochs of {spiral.PAPER['epochs']:,} and a step size of "
        f"{SPIRAL['lr']} in the place of {spiral.PAPER['lr']} on the two-turn spiral; "
        f"{DEPTH['runs']} seeds of {depth.PAPER['runs']} and {DEPTH['hidden']} nodes per layer of "
        f"{depth.PAPER['hidden']} on the four-turn spiral"
    ),
    times={NAME: "2 min"},
)
