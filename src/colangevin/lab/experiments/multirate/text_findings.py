"""What the records of multirate-text show, and what the thesis states about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

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

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "multirate-text"
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


def figures(records: kit.Records) -> dict[str, Figure]:
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
        labels = {job: record.settings["label"] for job, record in records.items()}
        found["time"] = multirate.draw_times(records, labels)
    return found


def _bars(records: list[kit.Record]) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 4.8), layout="constrained")
    axis = figure.subplots()
    values = [ACCURACY.of(record).values for record in records]
    bars(axis, [record.settings["label"] for record in records], values, ACCURACY.label)
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
                record.settings["label"],
                ACCURACY.text(record),
                f"{min(values):.1f} to {max(values):.1f}" if values else "–",
                f"{STATED[job]:.2f}" if job in STATED else "–",
                LOSS.text(record),
                f"{sum(phases):.0f}" if phases else "–",
            ]
        )
    columns = ["method", ACCURACY.label, "lowest to highest", "thesis, %", LOSS.label]
    return kit.Table([*columns, "processor time of a step, ms"], rows)


def claims(records: kit.Records) -> list[kit.Claim]:
    """What figure 5.6 and the tables state."""
    stated = [("multirate-fc", "fc"), ("multirate-block", "block")]
    stated += [("multirate-block", "multirate-fc")]
    for fast in ("multirate-fc", "multirate-block"):
        stated += [(fast, f"{fast}-{name}") for name in ("no-drift", "same-step", "k3", "k10")]
    return [
        *_as_good(records),
        *multirate.orderings(records, ACCURACY, stated, "SST-2, "),
        *_variance(records),
        *multirate.faster(records, "multirate-fc", "fc fast", "less time"),
        *multirate.faster(records, "multirate-block", "last block + fc fast", "little more"),
        *_periods(records),
    ]


def _as_good(records: kit.Records) -> list[kit.Claim]:
    """Not behind full fine-tuning by more than a point."""
    found = []
    for job in ("multirate-fc", "multirate-block"):
        if job in records and "full" in records:
            ours, full = ACCURACY.of(records[job]), ACCURACY.of(records["full"])
            by = kit.lead(ours, full)
            text = f"SST-2, test accuracy, %: {ours.label} as good as full fine-tuning"
            both = f"{ours.label} {ours.text()}; full {full.text()}"
            why = f"taken as less than a point behind{by.text(2)}"
            found.append(kit.Claim(text, "no loss", both, order=kit.within(by, low=-1.0), why=why))
    return found


def _variance(records: kit.Records) -> list[kit.Claim]:
    names = ("multirate-block", "multirate-fc")
    if any(name not in records for name in names):
        return []
    block, fc = [kit.spreads(ACCURACY.of(records[name])) for name in names]
    text = "SST-2, spread of the test accuracy over the runs, mean distance from the median, %"
    return [kit.ahead(text, block, [fc], sign=-1)]


def _periods(records: kit.Records) -> list[kit.Claim]:
    found = times(records)
    names = ("multirate-fc-k3", "multirate-fc", "multirate-fc-k10")
    if any(name not in found for name in names):
        return []
    ours = ", ".join(f"{sum(found[name]):.0f}" for name in names) + " ms per step"
    text = "time of a step, fc fast, k = 3, 5, 10: falls with k, by less and less per step of k"
    return [kit.undecided(text, "245, 198, 180 s per run", ours, multirate.ONE_TIME)]
