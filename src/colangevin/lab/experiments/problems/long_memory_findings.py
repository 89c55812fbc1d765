"""What comes of the records on long memories: pictures, table and verdicts."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from colangevin.lab import kit
from colangevin.lab.experiments.problems import searching

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OURS = "orthogonal-adam"
RECALLED = kit.Quantity("recalled", "symbols recalled, %", 1, 100.0, 1, chance=20.0)
LOSS = kit.Quantity("loss", "loss", -1, digits=4)
SECONDS = kit.Quantity("seconds", "processor time of a training, s", -1, digits=1)
SHORT, LONG = 30, (100, 200)
"""Waits: with all learning rates, and with the best of each method."""
WORKS = 0.9
"""Share of symbols from which on an lr works."""


def of_trials(record: kit.Record) -> np.ndarray:
    """What is recalled, [learning rates, runs], of a method with all of them.

    Example:
        >>> history = {"trial": [0, 0, 1, 1], "recalled": [0.5, 0.6, 0.95, None]}
        >>> settings = {"trials": [{"lr": 1.0}, {"lr": 2.0}]}
        >>> of_trials(kit.Record("a", "b", 0, settings, history=history)).tolist()
        [[0.5, 0.6], [0.95, 0.0]]
    """
    values = np.array(record.history["recalled"], dtype=float)
    rows = [
        values[np.array(record.history["trial"]) == trial]
        for trial in range(len(record.settings["trials"]))
    ]
    return np.nan_to_num(np.array(rows))


def working(record: kit.Record, key: str) -> list[float]:
    """With how many learning rates a run recalls most symbols."""
    return [float(count) for count in (of_trials(record) >= WORKS).sum(axis=0)]


WORKING = kit.Quantity(
    "recalled", "learning rates that work, of five", sign=1, digits=1, read=working
)


def _parts(records: kit.Records) -> tuple[kit.Records, kit.Records]:
    """Those with a chosen lr, and those with all."""
    swept = {name for name, record in records.items() if record.settings["swept"]}
    return (
        kit.Records(record for name, record in records.items() if name not in swept),
        kit.Records(records[name] for name in swept),
    )


def draw(records: kit.Records) -> Figure:
    """What is recalled after each wait, and with each learning rate."""
    from matplotlib.figure import Figure

    found, swept = _parts(records)
    figure = Figure(figsize=(9.6, 4.4), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    labels = list(dict.fromkeys(record.settings["label"] for record in records.values()))
    for place, label in enumerate(labels):
        line = {"color": kit.COLORS[place], "linestyle": kit.STYLES[place], "marker": "o"}
        own = [record for record in found.values() if record.settings["label"] == label]
        values = [RECALLED.of(record).values for record in own]
        if own:
            waits = [record.settings["wait"] for record in own]
            kit.band(left, waits, np.array(values), label=label, **line)
        for record in swept.values():
            if record.settings["label"] == label:
                lrs = [trial["lr"] for trial in record.settings["trials"]]
                kit.band(right, lrs, 100 * of_trials(record), **line)
                right.set(title=f"wait of {record.settings['wait']}, every lr")
    left.set(xlabel="wait", ylabel="symbols recalled, %", ylim=(0, 102), title="lr chosen")
    right.set(xlabel="lr of the recurrent weight", xscale="log")
    for axis in (left, right):
        axis.axhline(100 / 8, color="gray", linewidth=0.8)
        axis.grid(alpha=0.3)
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=3)
    kit.say_bands(figure)
    return figure


def table(records: kit.Records) -> kit.Table:
    """What new seeds recall with the chosen lr, and how many lr work."""
    found, swept = _parts(records)
    rows = []
    for record in found.values():
        wait = record.settings["wait"]
        work = [
            WORKING.text(own)
            for own in swept.values()
            if own.settings["label"] == record.settings["label"]
        ]
        cells = [own.text(record) for own in (RECALLED, LOSS, SECONDS)]
        errors = record.final.get("gram_error")
        exact = f"{max(record.values('gram_error')):.0e}" if errors else "–"
        start = [str(wait), record.settings["label"], searching.trial_text(record)]
        rows.append([*start, *cells, exact, *(work or ["–"])])
    waits = ", ".join(sorted({str(record.settings["wait"]) for record in swept.values()}))
    columns = ["wait", "method", "chosen", RECALLED.label, LOSS.label, SECONDS.label]
    columns += ["largest entry of \\|WᵀW − I\\|", f"lr that work, wait {waits or '–'}"]
    return kit.Table(columns, rows)


EACH = {"rival": ("lstm", "free", "torch-orthogonal", "orthogonal-gradient")}
CLAIMS: list[Callable[[kit.Records], list[kit.Claim]]] = [
    kit.Ahead(
        RECALLED,
        f"{OURS}-{{wait}}",
        over=("{rival}-{wait}",),
        text="symbols recalled after a wait of {wait}, %",
        each={"wait": LONG, **EACH},
    ),
    kit.Ahead(
        WORKING,
        f"swept-{OURS}-{SHORT}",
        over=(f"swept-{{rival}}-{SHORT}",),
        text=f"learning rates that work with a wait of {SHORT}, of five",
        each=EACH,
    ),
]
