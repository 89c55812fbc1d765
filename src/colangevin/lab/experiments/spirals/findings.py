"""What the records of partitioned-spirals show, and what the thesis states about it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from colangevin.lab import kit
from colangevin.lab.experiments.partitioned.partitioned import (
    ACCURACY,
    LATE_ACCURACY,
    LATE_LOSS,
    LOSS,
)
from colangevin.lab.experiments.partitioned.plot import bars, draw_regions

FIGURES = {"regions": "3.9", "grid": "3.10", "three": "3.10", "robust": "3.14", "hybrid": "3.15"}


def regions(records: kit.Records) -> kit.Figure | None:
    """The classifiers of figure 3.9, at the times that it shows."""
    rows = [row for row in map(_region_row, records.named("regions-*")) if row]
    return draw_regions(rows) if rows else None


def _region_row(record: kit.Record) -> list[tuple[str, dict[str, Any]]]:
    steps = record.settings["train_points"] // record.settings["batch_size"]
    shared = record.final["picture"]
    return [
        (f"{record.settings['label']}, step {one['epoch'] * steps:,}", {**shared, **one})
        for one in record.final["pictures"]
    ]


@dataclass(frozen=True)
class Bars:
    """Late accuracies of the jobs of a part."""

    part: str

    def __call__(self, records: kit.Records) -> kit.Figure | None:
        """The figure; None without records."""
        found = records.named(f"{self.part}-*")
        if not found:
            return None
        figure, axis = kit.panels((max(6.0, 0.55 * len(found)), 4.4))
        names = [record.label for record in found]
        bars(axis, names, [LATE_ACCURACY.of(own).values for own in found], LATE_ACCURACY.label)
        axis.set(ylim=(40, 101))
        kit.say_bands(figure)
        return figure


def robust(records: kit.Records) -> kit.Figure | None:
    """Variance over the runs, and mean, over the steps."""
    found = records.named("robust-*")
    if not found:
        return None
    figure, (left, right) = kit.panels((10, 3.8), 1, 2)
    for color, record in zip(kit.COLORS, found, strict=False):
        series = [kit.mean_std(100 * v for v in row) for row in record.series("test_accuracy")]
        line = {"color": color, "label": record.label}
        left.plot(record.history["step"], [std**2 for _, std, _ in series], **line)
        right.plot(record.history["step"], [mean for mean, _, _ in series], **line)
    left.set(xlabel="step", ylabel="variance of the test accuracy over the runs, %²")
    right.set(xlabel="step", ylabel="mean test accuracy, %")
    for axis in (left, right):
        axis.grid(alpha=0.3)
        axis.legend(fontsize="small")
    return figure


PICTURES: dict[str, kit.Drawing] = {
    "regions": regions,
    **{part: Bars(part) for part in ("grid", "three", "hybrid")},
    "robust": robust,
    "regions-curves": kit.Curves(
        [LOSS, ACCURACY], {"four turns, p = 1": ("regions-*",)}, logarithmic=True
    ),
}
COLUMNS: list[kit.TableColumn] = [
    kit.Column("figure", lambda record: FIGURES[record.settings["part"]]),
    kit.METHOD,
    ACCURACY,
    LATE_ACCURACY,
    LATE_LOSS,
]


def initialisation(records: kit.Records) -> list[kit.Claim]:
    """Adam's accuracy depends more on the first weights than AdLaLa's."""
    names = [f"robust-{name}" for name in ("adam", "adlala")]
    if any(name not in records or f"{name}-gaussian" not in records for name in names):
        return []
    gaps = []
    for name in names:
        own, other = ACCURACY.of(records[name]), ACCURACY.of(records[f"{name}-gaussian"])
        runs = [a - b for a, b in zip(own.values, other.values, strict=True)]
        sign = -1 if kit.mean_std(runs)[0] < 0 else 1
        gaps.append(kit.Measured(own.label.partition(",")[0], [sign * v for v in runs]))
    text = "test accuracy depends on the initialisation: difference of the two first weights, %"
    return [kit.ahead(text, gaps[0], gaps[1:], digits=1)]


REGIONS = {"job": ("regions-adlala", "regions-adlala-printed")}
DATA = "four turns with p = 1, 500 nodes"
TURNING = kit.Quantity("turning", "turning of the boundary per length", digits=1)
SPREAD = replace(
    ACCURACY,
    label="spread of the test accuracy over the runs, mean distance from the median, %",
    sign=-1,
    chance=None,
    read=kit.spreads,
)
RIVALS = ("robust-sgd", "robust-adam", "robust-adam-gaussian")
ALONE = kit.Of("hybrid-none-*", strongest=True)
MIXED = kit.Of("hybrid-[0-9]*", strongest=True)


def _on_grid(part: str, turns: str) -> list[kit.Stated]:
    """AdLaLa against the best of all rivals of a kind."""
    return [
        kit.Ahead(
            LATE_ACCURACY,
            f"{part}-{job}",
            over=[kit.Of(f"{part}-{kind}-*", strongest=True)],
            text=f"late test accuracy, {turns}, 100 nodes: {{label}} > {word}, %",
        )
        for job in ("adlala", "adlala-printed")
        for kind, word in (("sgld", "any SGD or SGLD"), ("adam", "any Adam"))
    ]


CLAIMS: list[kit.Judgement] = [
    *[
        kit.Ahead(own, "{job}", ["regions-adam"], text=f"{own.label}: {DATA}", each=REGIONS)
        for own in (LATE_ACCURACY, LATE_LOSS, TURNING)
    ],
    *_on_grid("grid", "four turns"),
    *_on_grid("three", "three turns"),
    kit.Ahead(SPREAD, "robust-{job}", RIVALS, each={"job": ("lol", "adlala", "adlala-gaussian")}),
    initialisation,
    kit.Ahead(ACCURACY, "robust-adlala", RIVALS, text="mean test accuracy, %"),
    kit.Ahead(
        LATE_ACCURACY,
        MIXED,
        [ALONE],
        text="late test accuracy, four turns: the best hybrid against the best SGD, %",
    ),
    kit.Near(
        LATE_ACCURACY,
        ALONE,
        "70",
        text="late test accuracy of the best SGD after 50,000 steps, four turns, %",
    ),
]
