"""What the records of multirate-text show, and what the thesis states about it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from colangevin.lab import kit
from colangevin.lab.experiments.multirate import multirate
from colangevin.lab.experiments.multirate.multirate import (
    ACCURACY,
    FINETUNING,
    LOSS,
    times,
    trained,
)
from colangevin.lab.experiments.partitioned.plot import bars

STATED = {
    "multirate-fc": 89.43,
    "multirate-fc-no-drift": 88.69,
    "multirate-fc-same-step": 88.78,
    "multirate-fc-k3": 89.26,
    "multirate-fc-k10": 88.53,
    "multirate-block": 89.70,
    "multirate-block-no-drift": 89.54,
    "multirate-block-same-step": 89.29,
    "multirate-block-k3": 88.91,
    "multirate-block-k10": 88.65,
}
"""Mean test accuracies of tables 5.1 to 5.3, %, of DistilBERT on all of SST-2."""


def figures(records: kit.Records) -> dict[str, kit.Figure]:
    """Figure 5.6 with the tables as bars, and the time of a step."""
    found = {}
    done = trained(records)
    main = [record for job, record in done.items() if job in FINETUNING]
    if main and len(main[0].history["epoch"]) > 2:  # else the bars tell as much
        panels = {"test_accuracy": "test accuracy, %", "test_loss": "test loss"}
        found["curves"] = kit.draw_curves([(panels, main)])
    if done:
        found["accuracy"] = _bars(list(done.values()))
    if times(records):
        labels = {job: record.label for job, record in records.items()}
        found["time"] = multirate.draw_times(records, labels)
    return found


def _bars(records: list[kit.Record]) -> kit.Figure:

    figure, axis = kit.panels((9, 4.8))
    values = [ACCURACY.of(record).values for record in records]
    bars(axis, [record.label for record in records], values, ACCURACY.label)
    lowest = min((value for runs in values for value in runs if value == value), default=50.0)
    axis.set(ylim=(lowest - 5, None))
    kit.say_bands(figure)
    return figure


def table(records: kit.Records) -> kit.Table:
    """Accuracy as in the tables 5.1 to 5.3, loss, and the time of a step."""
    rows = []
    for job, record in trained(records).items():
        values = [value for value in ACCURACY.of(record).values if value == value]
        phases = times(records).get(job)
        rows.append(
            [
                record.label,
                ACCURACY.text(record),
                f"{min(values):.1f} to {max(values):.1f}" if values else "–",
                f"{STATED[job]:.2f}" if job in STATED else "–",
                LOSS.text(record),
                f"{sum(phases):.0f}" if phases else "–",
            ]
        )
    columns = ["method", ACCURACY.label, "lowest to highest", "thesis, %", LOSS.label]
    return kit.Table([*columns, "processor time of a step, ms"], rows)


def periods(records: kit.Records) -> list[kit.Claim]:
    """The time of a step falls with k."""
    found = times(records)
    names = ("multirate-fc-k3", "multirate-fc", "multirate-fc-k10")
    if any(name not in found for name in names):
        return []
    ours = ", ".join(f"{sum(found[name]):.0f}" for name in names) + " ms per step"
    text = "time of a step, fc fast, k = 3, 5, 10: falls with k, by less and less per step of k"
    return [kit.undecided(text, "245, 198, 180 s per run", ours, multirate.ONE_TIME)]


SPREAD = replace(
    ACCURACY,
    label="SST-2, spread of the test accuracy over the runs, mean distance from the median, %",
    sign=-1,
    read=kit.spreads,
)
PAIRS = [("multirate-fc", "fc"), ("multirate-block", "block"), ("multirate-block", "multirate-fc")]
for _fast in ("multirate-fc", "multirate-block"):
    PAIRS += [(_fast, f"{_fast}-{name}") for name in ("no-drift", "same-step", "k3", "k10")]
CLAIMS: list[kit.Judgement] = [
    kit.Apart(
        ACCURACY,
        "{job}",
        "full",
        "no loss",
        low=-1.0,
        text="SST-2, test accuracy, %: {label} as good as full fine-tuning",
        each={"job": ("multirate-fc", "multirate-block")},
    ),
    *multirate.ordered(ACCURACY, PAIRS, "SST-2, "),
    kit.Ahead(SPREAD, "multirate-block", ["multirate-fc"]),
    partial(multirate.faster, method="multirate-fc", label="fc fast", stated="less time"),
    partial(
        multirate.faster,
        method="multirate-block",
        label="last block + fc fast",
        stated="little more",
    ),
    periods,
]
