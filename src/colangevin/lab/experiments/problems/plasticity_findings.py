"""What comes of the records on many tasks: pictures, table and verdicts."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from colangevin.lab import kit
from colangevin.lab.experiments.problems import searching

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WINDOW = 5
"""Tasks that are one point of a curve."""


def percent(key: str, label: str) -> kit.Quantity:
    """A share of images or of weights."""
    return kit.Quantity(key, f"{label}, %", 1, 100.0, 1)


LATE = percent("late_accuracy", "last tasks")
EARLY = percent("early_accuracy", "first tasks")
STUCK = percent("stuck", "first layer's weights at the bound")
LARGEST = kit.Quantity("largest", "largest weight of the first layer, times √fan_in", -1, digits=1)
FREE = {d: (f"free-{d}", f"decay-{d}", f"initial-{d}", f"shrink-{d}") for d in ("gradient", "adam")}


def of_lines(records: kit.Records) -> tuple[kit.Records, kit.Records]:
    """Records of methods, and of lines over the temperature."""
    lines = {name for name in records if name.startswith("line-")}
    return (
        kit.Records(own for name, own in records.items() if name not in lines),
        kit.Records(records[name] for name in records if name in lines),
    )


def courses(record: kit.Record) -> Any:
    """Accuracy of each new seed, in means of some tasks, [points, runs]."""
    rows = zip(record.history["part"], record.history[searching.COURSE], strict=True)
    found = np.array([course for part, course in rows if part == searching.SEEDS]).T
    count = len(found) // WINDOW or 1
    return np.array([part.mean(axis=0) for part in np.array_split(found, count)])


def draw(records: kit.Records) -> Figure:
    """Accuracy over the tasks, along the gradient and along Adam."""
    methods, _ = of_lines(records)
    figure, axes = kit.panels((10.4, 5.0), 1, 2, sharey=True)
    for axis, direction in zip(axes, ("gradient", "adam"), strict=True):
        own = [r for r in methods.values() if r.settings["direction"] == direction]
        for place, record in enumerate(own):
            values = 100 * courses(record)
            tasks = (np.arange(len(values)) + 0.5) * record.settings["tasks"] / len(values)
            style = {"color": kit.COLORS[place % 7], "linestyle": kit.STYLES[place % 6]}
            label = record.settings["label"].rpartition(", ")[0]
            kit.band(axis, tasks, values, label=label, **style)
        axis.set(title=f"along {'Adam' if direction == 'adam' else 'the gradient'}", xlabel="task")
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("right answers before learning from them, %")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3)
    kit.say_bands(figure)
    return figure


def of_trials(record: kit.Record, key: str) -> Any:
    """A number of all trials and seeds, [trials, runs].

    Example:
        >>> history = {"trial": [0, 0, 1, 1], "stuck": [0.5, 0.6, 0.1, None]}
        >>> settings = {"trials": [{"tau": 0.0}, {"tau": 1e-6}]}
        >>> of_trials(kit.Record("a", "b", 0, settings, history=history), "stuck")
        array([[0.5, 0.6],
               [0.1, nan]])
    """
    values = np.array(record.history[key], dtype=float)
    trials = np.array(record.history["trial"])
    return np.array([values[trials == trial] for trial in range(len(record.settings["trials"]))])


def draw_line(records: kit.Records) -> Figure | None:
    """Accuracy in the last tasks and weights at the bound, over the temperature."""
    _, lines = of_lines(records)
    if not lines:
        return None
    figure, axes = kit.panels((9.6, 4.0), 1, 2)
    for place, record in enumerate(lines.values()):
        taus = [trial["tau"] for trial in record.settings["trials"]]
        style = {"color": kit.COLORS[place], "linestyle": kit.STYLES[place], "marker": "o"}
        for axis, key in zip(axes, ("late_accuracy", "stuck"), strict=True):
            label = record.job.removeprefix("line-").capitalize()
            kit.band(axis, taus, 100 * of_trials(record, key), label=label, **style)
    for axis, title in zip(axes, (LATE.label, STUCK.label), strict=True):
        axis.set(title=title, xlabel="temperature τ")
        axis.set_xscale("symlog", linthresh=1e-8)
        axis.grid(alpha=0.3)
    axes[0].legend()
    kit.say_bands(figure)
    return figure


def table(records: kit.Records) -> kit.Table:
    """What new seeds reach with the chosen trial."""
    columns: list[kit.Column | kit.Quantity] = [
        kit.METHOD,
        searching.CHOSEN,
        EARLY,
        LATE,
        STUCK,
        LARGEST,
    ]
    rows = [[column.text(own) for column in columns] for own in of_lines(records)[0].values()]
    return kit.Table([column.label for column in columns], rows)


def strongest(*names: str) -> kit.Of:
    """The best of some rivals."""
    return kit.Of(names, strongest=True)


def at(tau: float) -> kit.Quantity:
    """Accuracy in the last tasks at a temperature of a line."""

    def read(record: kit.Record, key: str) -> list[float]:
        taus = [trial["tau"] for trial in record.settings["trials"]]
        return [float(value) for value in of_trials(record, key)[taus.index(tau)]]

    return kit.Quantity("late_accuracy", "last tasks, %", 1, 100.0, 1, read=read)


def noise(records: kit.Records) -> list[kit.Claim]:
    """Whether noise helps at the same lr and bound."""
    found = []
    for name in ("line-circle", "line-box"):
        if name in records and len(records[name].settings["trials"]) > 4:
            kind = name.removeprefix("line-").capitalize()
            hot = kit.Of(name, at(1e-6), label=f"{kind}, τ = 1e-6")
            cold = kit.Of(name, at(0.0), label=f"{kind}, τ = 0")
            found += kit.Ahead(LATE, hot, over=(cold,), text="last tasks, lr 0.01, factor 1, %")(
                records
            )
    return found


CLAIMS: list[Callable[[kit.Records], list[kit.Claim]]] = [
    kit.Ahead(LATE, "clip-adam", over=("free-adam",)),
    kit.Ahead(LATE, "box-adam", over=(strongest(*FREE["adam"]),)),
    kit.Ahead(LATE, "box-adam", over=("clip-adam",)),
    kit.Ahead(LATE, "box-gradient", over=(strongest(*FREE["gradient"]),)),
    kit.Ahead(LATE, "circle-noise", over=("circle-gradient",)),
    kit.Ahead(LATE, "box-noise", over=("box-gradient",)),
    kit.Ahead(LATE, "circle-noise", over=(strongest(*FREE["gradient"], "clip-gradient"),)),
    kit.Ahead(LATE, "box-noise", over=(strongest(*FREE["gradient"], "clip-gradient"),)),
    noise,
]
