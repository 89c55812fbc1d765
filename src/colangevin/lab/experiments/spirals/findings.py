"""What the records of partitioned-spirals show, and what the thesis states about it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from colangevin.lab import kit
from colangevin.lab.experiments.partitioned.partitioned import ACCURACY, LATE_ACCURACY, LATE_LOSS
from colangevin.lab.experiments.partitioned.plot import bars, draw_curves, draw_regions

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "partitioned-spirals"
GRIDS = {"grid": "four turns", "three": "three turns"}
FIGURES = {"regions": "3.9", "grid": "3.10", "three": "3.10", "robust": "3.14", "hybrid": "3.15"}


def _part(records: kit.Records, part: str) -> dict[str, kit.Record]:
    return {
        job.partition("-")[2]: record
        for job, record in records.items()
        if record.settings["part"] == part
    }


def figures(records: kit.Records) -> dict[str, Figure]:
    """Figures 3.9, 3.10, 3.14 and 3.15, as far as their jobs are done."""
    found = {}
    regions = _part(records, "regions")
    rows = [row for row in map(_region_row, regions.values()) if row]
    if rows:
        found["regions"] = draw_regions(rows)
    for part in GRIDS:
        if grid := _part(records, part):
            found[part] = _bars(list(grid.values()))
    if robust := _part(records, "robust"):
        found["robust"] = _robust(list(robust.values()))
    if hybrid := _part(records, "hybrid"):
        found["hybrid"] = _bars(list(hybrid.values()))
    if regions:
        found["regions-curves"] = draw_curves({"four turns, p = 1": list(regions.values())})
    return found


def _region_row(record: kit.Record) -> list[tuple[str, dict[str, Any]]]:
    steps = record.settings["train_points"] // record.settings["batch_size"]
    shared = record.final["picture"]
    return [
        (f"{record.settings['label']}, step {one['epoch'] * steps:,}", {**shared, **one})
        for one in record.final["pictures"]
    ]


def _bars(records: Sequence[kit.Record]) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(max(6.0, 0.55 * len(records)), 4.4), layout="constrained")
    axis = figure.subplots()
    names = [record.settings["label"] for record in records]
    bars(axis, names, [LATE_ACCURACY.of(record).values for record in records], LATE_ACCURACY.label)
    axis.set(ylim=(40, 101))
    kit.say_bands(figure)
    return figure


def _robust(records: Sequence[kit.Record]) -> Figure:
    """Variance over the runs, and mean, over the steps."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    for color, record in zip(kit.COLORS, records, strict=False):
        series = [kit.mean_std(100 * v for v in row) for row in record.series("test_accuracy")]
        line = {"color": color, "label": record.settings["label"]}
        left.plot(record.history["step"], [std**2 for _, std, _ in series], **line)
        right.plot(record.history["step"], [mean for mean, _, _ in series], **line)
    left.set(xlabel="step", ylabel="variance of the test accuracy over the runs, %²")
    right.set(xlabel="step", ylabel="mean test accuracy, %")
    for axis in (left, right):
        axis.grid(alpha=0.3)
        axis.legend(fontsize="small")
    return figure


def table(records: kit.Records) -> kit.Table:
    """Accuracy and loss of every job."""
    rows = [
        [
            FIGURES[record.settings["part"]],
            record.settings["label"],
            ACCURACY.text(record),
            LATE_ACCURACY.text(record),
            LATE_LOSS.text(record),
        ]
        for record in records.values()
    ]
    columns = ["figure", "method", ACCURACY.label, LATE_ACCURACY.label, LATE_LOSS.label]
    return kit.Table(columns, rows)


def claims(records: kit.Records) -> list[kit.Claim]:
    """What the captions and section 3.6 state."""
    return (
        _on_regions(_part(records, "regions"))
        + [
            claim
            for part, turns in GRIDS.items()
            for claim in _on_grid(_part(records, part), turns)
        ]
        + _on_robustness(_part(records, "robust"))
        + _on_hybrids(_part(records, "hybrid"))
    )


def _on_regions(records: dict[str, kit.Record]) -> list[kit.Claim]:
    data, found = "four turns with p = 1, 500 nodes", []
    for name in [n for n in records if n.startswith("adlala") and "adam" in records]:
        both = records[name], records["adam"]
        found += [
            replace(quantity.ahead(*both), text=f"{quantity.label}: {data}")
            for quantity in (LATE_ACCURACY, LATE_LOSS)
        ]
        turned = [[math.nan if v is None else v for v in r.final["turning"]] for r in both]
        pairs = zip(both, turned, strict=True)
        turns = [kit.Measured(r.settings["label"], values) for r, values in pairs]
        text = f"turning of the boundary per length: {data}"
        found.append(kit.ahead(text, turns[0], turns[1:], sign=-1, digits=1))
    return found


def _on_grid(records: dict[str, kit.Record], turns: str) -> list[kit.Claim]:
    found = []
    for own in [r for job, r in records.items() if job.startswith("adlala")]:
        for kind, word in (("sgld", "any SGD or SGLD"), ("adam", "any Adam")):
            others = [LATE_ACCURACY.of(r) for job, r in records.items() if job.startswith(kind)]
            if others:
                rival = max(others, key=lambda one: _level(one.values))
                name = own.settings["label"]
                text = f"late test accuracy, {turns}, 100 nodes: {name} > {word}, %"
                found.append(kit.ahead(text, LATE_ACCURACY.of(own), [rival], digits=1))
    return found


def _level(values: Sequence[float]) -> float:
    mean = kit.mean_std(values)[0]
    return mean if math.isfinite(mean) else -math.inf


def _on_robustness(records: dict[str, kit.Record]) -> list[kit.Claim]:
    """Variances over the runs, and what the initialisation changes."""
    measured = {name: ACCURACY.of(record) for name, record in records.items()}
    if set(records) != {"sgd", "adam-gaussian", "adam", "lol", "adlala-gaussian", "adlala"}:
        return []
    rivals = [measured[name] for name in ("sgd", "adam", "adam-gaussian")]
    text = "spread of the test accuracy over the runs, mean distance from the median, %"
    found = [
        kit.ahead(text, kit.spreads(measured[name]), [*map(kit.spreads, rivals)], sign=-1, digits=1)
        for name in ("lol", "adlala", "adlala-gaussian")
    ]
    gaps = []
    for name in ("adam", "adlala"):
        pairs = zip(measured[name].values, measured[f"{name}-gaussian"].values, strict=True)
        runs = [a - b for a, b in pairs]
        sign = -1 if kit.mean_std(runs)[0] < 0 else 1
        gaps.append(kit.Measured(measured[name].label.partition(",")[0], [sign * v for v in runs]))
    text = "test accuracy depends on the initialisation: difference of the two first weights, %"
    found.append(kit.ahead(text, gaps[0], gaps[1:], digits=1))
    return [*found, kit.ahead("mean test accuracy, %", measured["adlala"], rivals, digits=1)]


def _on_hybrids(records: dict[str, kit.Record]) -> list[kit.Claim]:
    alone = [LATE_ACCURACY.of(r) for job, r in records.items() if job.startswith("none")]
    mixed = [LATE_ACCURACY.of(r) for job, r in records.items() if not job.startswith("none")]
    if not alone or not mixed:
        return []
    best_alone: kit.Measured = max(alone, key=lambda one: _level(one.values))
    best_mixed: kit.Measured = max(mixed, key=lambda one: _level(one.values))
    text = "late test accuracy, four turns: the best hybrid against the best SGD, %"
    return [
        kit.ahead(text, best_mixed, [best_alone], digits=1),
        kit.number(
            "late test accuracy of the best SGD after 50,000 steps, four turns, %",
            "70",
            best_alone,
            digits=1,
        ),
    ]
