"""What comes of the records on modular multiplication: pictures, table and verdicts."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from colangevin.lab import kit
from colangevin.lab.experiments.problems import searching

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STEPS = "steps"


def late(record: kit.Record) -> int:
    """How many of the new seeds did not get to the level within the limit."""
    return sum(missing > 0.0 for missing in record.values("missing"))


def text(record: kit.Record) -> str:
    """Median and range, with how many runs did not get there.

    Example:
        >>> settings = {"limit": 90, "label": "AdamW"}
        >>> final = {"steps": [50, 90, 70], "missing": [0.0, 0.1, 0.0]}
        >>> text(kit.Record("a", "b", 0, settings, final=final))
        'median 70, 50 to 90; 1 of 3 not within 90'
    """
    found = sorted(record.values(STEPS))
    limit, count = record.settings["limit"], late(record)
    if count == len(found):
        return f"none of {count} within {limit:,}"
    said = f"median {statistics.median(found):,.0f}, {found[0]:,.0f} to {found[-1]:,.0f}"
    return said + (f"; {count} of {len(found)} not within {limit:,}" if count else "")


def draw(records: kit.Records) -> Figure:
    """Test accuracy of every new seed over the steps."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.6, 4.6), layout="constrained")
    axis = figure.subplots()
    for place, record in enumerate(records.values()):
        every, label = record.settings["every"], record.settings["label"]
        rows = zip(record.history["part"], record.history[searching.COURSE], strict=True)
        for course in [course for part, course in rows if part == searching.SEEDS]:
            times = [every * (index + 1) for index in range(len(course))]
            values = [100 * value for value in course]
            line: dict[str, Any] = {"color": kit.COLORS[place], "linestyle": kit.STYLES[place]}
            axis.plot(times, values, label=label, linewidth=1.2, alpha=0.8, **line)
            label = None
    axis.axhline(100 * records.settings["level"], color="gray", linewidth=0.8)
    axis.set(xscale="log", xlabel="step", ylabel="right products of unseen pairs, %")
    axis.grid(alpha=0.3)
    axis.legend(fontsize="small")
    axis.set_title("each line is a run, up to 95 %", fontsize="small", color="gray")
    return figure


def cost(record: kit.Record, key: str) -> list[float]:
    """Milliseconds of a step."""
    pairs = zip(record.values(key), record.values(STEPS), strict=True)
    return [1000 * seconds / count for seconds, count in pairs]


def fewer(best: str, *others: str | kit.Of) -> Callable[[kit.Records], list[kit.Claim]]:
    """Fewer steps, by the sign test: a run that ends at the limit has no number for a mean."""

    def claims(records: kit.Records) -> list[kit.Claim]:
        made = kit.Ahead(REACHED, best, over=others, exact=True)(records)
        told = {own.settings["label"]: own for own in records.values()}
        asked = [one if isinstance(one, kit.Of) else kit.Of(one) for one in (best, *others)]
        labels = [own.label for one in asked for own in one.measured(records, REACHED)]
        ours = "; ".join(f"{label} {text(told[label])}" for label in labels)
        return [replace(claim, ours=ours) for claim in made]

    return claims


REACHED = kit.Quantity(STEPS, "steps to 95 % test accuracy", -1, digits=0)
TABLE: list[kit.Column | kit.Quantity] = [
    *(kit.METHOD, searching.CHOSEN, kit.Column(REACHED.label, text)),
    kit.Quantity("train_accuracy", "train accuracy at the end, %", 1, 100.0, 1),
    kit.Quantity("test_accuracy", "test accuracy at the end, %", 1, 100.0, 1),
    kit.Quantity("seconds", "processor time of a step, ms", digits=1, read=cost),
]
RIVALS = kit.Of(("adamw", "lion"), strongest=True)
CLAIMS: list[Callable[[kit.Records], list[kit.Claim]]] = [
    fewer("adam-bounded", "usual"),
    fewer("adam-bounded", "adamw"),
    fewer("adam-bounded", "adam-start"),
    fewer("sign-bounded", "lion"),
    fewer("sign-bounded", RIVALS),
]
