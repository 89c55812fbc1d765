"""What the sweeps and seeds of the language model say, beside figures of others."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from colangevin.lab import kit

SWEEP, SEEDS, SHORTER = "sweep", "seeds", "shorter"
"""Parts of a history: the search for the lr, new seeds of the best, the same with fewer steps."""
TRANSFER = "transfer-"
"""How the names of jobs begin that have sweeps at two widths, and nothing else."""
LOSS = kit.Quantity("valid_loss", "validation loss", digits=4)


def rows_of(
    history: Mapping[str, list[Any]], part: str, width: int, lr: float
) -> list[dict[str, Any]]:
    """The measurements of one stretch of runs.

    Example:
        >>> history = {"part": ["sweep"] * 2, "width": [8] * 2, "lr": [0.1, 0.2], "step": [5, 5]}
        >>> rows_of(history, "sweep", 8, 0.2)
        [{'part': 'sweep', 'width': 8, 'lr': 0.2, 'step': 5}]
    """
    return [
        row for row in _rows(history) if (row["part"], row["width"], row["lr"]) == (part, width, lr)
    ]


def _rows(history: Mapping[str, list[Any]]) -> list[dict[str, Any]]:
    columns = history.values()
    return [dict(zip(history, row, strict=True)) for row in zip(*columns, strict=True)]


def swept(history: Mapping[str, list[Any]], width: int, steps: int) -> dict[float, float]:
    """Last validation loss by lr, of those that were tried at a width to the end."""
    return {
        row["lr"]: math.nan if row["valid_loss"][0] is None else row["valid_loss"][0]
        for row in _rows(history)
        if (row["part"], row["width"], row["step"]) == (SWEEP, width, steps)
    }


def best(losses: Mapping[float, float]) -> float:
    """The lr of the lowest loss; one that diverged is the last choice.

    Example:
        >>> best({0.1: 2.0, 0.2: math.nan})
        0.1
    """
    return min(losses, key=lambda lr: math.inf if math.isnan(losses[lr]) else losses[lr])


def is_there(history: Mapping[str, list[Any]], part: str, steps: int) -> bool:
    """Whether a part has its last step."""
    return any((row["part"], row["step"]) == (part, steps) for row in _rows(history))


def outcome(record: kit.Record) -> dict[str, Any]:
    """Best lr by width; losses and seconds of the seeds after their last step."""
    settings, rows = record.settings, _rows(record.history)
    sweeps = {
        width: swept(record.history, width, settings["steps"]) for width in settings["widths"]
    }
    found: dict[str, Any] = {"best_lr": {str(width): best(own) for width, own in sweeps.items()}}
    for part, prefix in ((SEEDS, ""), (SHORTER, f"{SHORTER}_")):
        for row in [row for row in rows if row["part"] == part][-1:]:
            for key in ("valid_loss", "train_loss", "seconds"):
                found[prefix + key] = row[key]
    return found


def figures(records: kit.Records) -> dict[str, kit.Figure]:
    """Losses over steps and over time, the last loss by lr, and the best lr by width."""
    from colangevin.lab.experiments.text import language_plot

    trained = {name: own for name, own in records.items() if SEEDS in own.history["part"]}
    drawn = {}
    if trained:
        drawn["losses"] = language_plot.losses(list(trained.values()))
        drawn["sensitivity"] = language_plot.sensitivity(list(trained.values()))
    moved = [own for name, own in records.items() if name not in trained]
    if moved:
        drawn["transfer"] = language_plot.transfer(moved)
    return drawn


def table(records: kit.Records) -> kit.Table:
    """Each method at its best lr, beside the same direction on free weights."""
    trained = {name: own for name, own in records.items() if "seconds" in own.final}
    shortest = min((least(own.final["seconds"]) for own in trained.values()), default=math.nan)
    rows = []
    for record in trained.values():
        control = trained.get(record.settings["direction"])
        rows.append(
            [
                record.label,
                f"{best_lr(record):g}",
                LOSS.text(record),
                _below(record, control),
                records.text(record.job, "train_loss", 3),
                records.text(record.job, "seconds", 1),
                f"{loss_after(record, shortest):.3f}",
                _around(record),
            ]
        )
    columns = ["method", "best lr", LOSS.label, "lead on the control ± standard error"]
    columns += ["train loss", "seconds", f"loss after {shortest:.0f} s"]
    return kit.Table([*columns, "loss at ½ and 2 times the best lr, above that of the best"], rows)


def _below(record: kit.Record, control: kit.Record | None) -> str:
    if control is None:
        return "–"
    if control.job == record.job:
        return "control"
    found = kit.lead(LOSS.of(record), LOSS.of(control), LOSS.sign)
    return found.text(LOSS.digits).strip(" ()")


def _around(record: kit.Record) -> str:
    width, steps = record.settings["widths"][-1], record.settings["steps"]
    losses, chosen = swept(record.history, width, steps), best_lr(record)
    rises = []
    for factor in (0.5, 2.0):
        near = [loss for lr, loss in losses.items() if math.isclose(lr, factor * chosen)]
        rises += [f"{loss - losses[chosen]:+.3f}" for loss in near] or ["not tried"]
    return ", ".join(rises)


def best_lr(record: kit.Record, width: int | None = None) -> float:
    """The best lr at a width; by default at that of the seeds."""
    found: Mapping[str, float] = record.final["best_lr"]
    return found[str(width or record.settings["widths"][-1])]


def least(values: Sequence[float | None]) -> float:
    """The mean of the values that there are."""
    return kit.mean_std([value for value in values if value is not None])[0]


def courses(record: kit.Record, part: str = SEEDS) -> dict[str, Any]:
    """Steps, seconds and validation losses of a part, one row per mark, one column per run."""
    rows = [row for row in _rows(record.history) if row["part"] == part]
    keys = ("step", "seconds", "valid_loss")
    return {key: np.array([row[key] for row in rows], dtype=float) for key in keys}


def loss_after(record: kit.Record, seconds: float) -> float:
    """Mean validation loss after some processor time, on a line between two measurements.

    The lr has not come down then, unless the run is over.
    """
    found = courses(record)
    timed = zip(found["seconds"].T, found["valid_loss"].T, strict=False)  # runs of one processor
    return float(np.mean([np.interp(seconds, times, losses) for times, losses in timed]))


def claims(records: kit.Records) -> list[kit.Claim]:
    """What others state for large networks, as far as these records can tell."""
    found = [
        _order(records, "AdamH at the same steps", "AdamH < Adam", "adam-norm", "adam"),
        _fewer_steps(records),
        _order(records, "MuonH beside Muon, both tuned", "MuonH = Muon", "polar-norm", "polar"),
        _order(
            records,
            "all hidden matrices orthogonal",
            "3.3679 < 3.3855 (free), GPT-2 small",
            *("polar-orthogonal", "polar"),
        ),
        _order(
            records,
            "orthogonal attention, MLP of fixed norm (the nearest to a diagonal Gram matrix)",
            "3.3544 < 3.3679 (all orthogonal), GPT-2 small",
            *("polar-mixed", "polar-orthogonal"),
        ),
        *(_moved(records[name]) for name in records if name.startswith(TRANSFER)),
    ]
    return [claim for claim in found if claim is not None]


def _order(
    records: kit.Records, what: str, stated: str, first: str, second: str
) -> kit.Claim | None:
    """A statement on two methods at the same number of steps."""
    if first not in records or second not in records:
        return None
    one, other = records[first], records[second]
    return _judged(f"{LOSS.label}: {what}", stated, LOSS.of(one), LOSS.of(other), one.settings)


def _fewer_steps(records: kit.Records) -> kit.Claim | None:
    """Whether AdamH is no worse than Adam after a part of the steps."""
    if "adam-norm" not in records or "adam" not in records:
        return None
    one, other = records["adam-norm"], records["adam"]
    short = kit.Measured("AdamH", one.values(f"{SHORTER}_{LOSS.key}"))
    what = f"{LOSS.label}: AdamH with {one.settings['shorter']:.0%} of Adam's steps"
    stated = "Adam's loss (4875 of 5625 steps)"
    return _judged(what, stated, short, LOSS.of(other), one.settings)


def _judged(
    text: str, stated: str, one: kit.Measured, other: kit.Measured, settings: kit.Settings
) -> kit.Claim:
    """The answer of a paired t test. That two are equal can be refuted, and not shown."""
    found = kit.lead(one, other, LOSS.sign)
    order = kit.answer([found])
    if "=" in stated:
        order = kit.Answer(kit.NO if found.sure else kit.UNDECIDED, found.said())
    ours = "; ".join(f"{own.label} {own.text(LOSS.digits)}" for own in (one, other))
    why = f"lead{found.text(LOSS.digits)}; {_reduced(settings)}"
    return kit.Claim(text, stated, ours, order=order, why=why)


def _moved(record: kit.Record) -> kit.Claim:
    """Whether the best lr of a small width is that of a large one."""
    settings = record.settings
    small, large = settings["widths"]
    ours = [best_lr(record, width) for width in (small, large)]
    losses = swept(record.history, large, settings["steps"])
    cost = losses[ours[0]] - losses[ours[1]]
    at_end = {*ours} & {settings["lrs"][0], settings["lrs"][-1]}
    return kit.undecided(
        f"best lr of {settings['label']} from width {small} to {large}",
        "moves" if record.job == f"{TRANSFER}adam" else "stays",
        f"{ours[0]:g} to {ours[1]:g}; the first costs {cost:+.3f} at width {large}",
        "1 run each" + (", the best is at an end of the sweep" if at_end else ""),
        _reduced(settings),
    )


def _reduced(settings: kit.Settings) -> str:
    width = " and ".join(map(str, settings["widths"]))
    return f"reduced: {settings['layers']} blocks of width {width}, {settings['steps']} steps"
