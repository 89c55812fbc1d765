"""What comes of the records on modular multiplication: pictures, table and verdicts."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from colangevin.lab import kit
from colangevin.lab.experiments.problems import search

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STEPS = "steps"
RIVALS = ("adamw", "lion")
CONTROLS = {"adam-bounded": "adam-start"}


def steps(record: kit.Record) -> kit.Measured:
    """Steps to the level, or the limit for a run that did not get there."""
    return kit.Measured(record.settings["label"], record.values(STEPS))


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


def figures(records: kit.Records) -> dict[str, Figure]:
    """Test accuracy of every new seed over the steps."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.6, 4.6), layout="constrained")
    axis = figure.subplots()
    for place, record in enumerate(records.values()):
        every, label = record.settings["every"], record.settings["label"]
        rows = zip(record.history["part"], record.history[search.COURSE], strict=True)
        for course in [course for part, course in rows if part == search.SEEDS]:
            times = [every * (index + 1) for index in range(len(course))]
            values = [100 * value for value in course]
            line = {"color": kit.COLORS[place], "linestyle": kit.STYLES[place]}
            axis.plot(times, values, label=label, linewidth=1.2, alpha=0.8, **line)
            label = None
    axis.axhline(100 * records.settings["level"], color="gray", linewidth=0.8)
    axis.set(xscale="log", xlabel="step", ylabel="right products of unseen pairs, %")
    axis.grid(alpha=0.3)
    axis.legend(fontsize="small")
    axis.set_title("each line is a run, up to 95 %", fontsize="small", color="gray")
    return {"steps": figure}


def table(records: kit.Records) -> kit.Table:
    """Steps of the new seeds, and what a step costs."""
    rows = []
    for record in records.values():
        pairs = zip(record.values("seconds"), record.values(STEPS), strict=True)
        cost = kit.Measured("", [1000 * seconds / count for seconds, count in pairs])
        trial = f"{search.trial_text(record)} (of {len(record.settings['trials'])})"
        train = kit.Quantity("train_accuracy", "", 1, 100.0, 1).text(record)
        test = kit.Quantity("test_accuracy", "", 1, 100.0, 1).text(record)
        rows.append([record.settings["label"], trial, text(record), train, test, cost.text(1)])
    columns = ["method", "chosen", "steps to 95 %", "train accuracy at the end, %"]
    columns += ["test accuracy at the end, %", "processor time of a step, ms"]
    return kit.Table(columns, rows)


def claims(records: kit.Records) -> list[kit.Claim]:
    """Bounded rows against decay, tuned, and against the same start without a bound."""
    found = []
    for best in ("adam-bounded", "sign-bounded"):
        for others in (RIVALS[:1], RIVALS[1:], (CONTROLS.get(best, ""),)):
            there = [records[name] for name in others if name in records]
            if best in records and there:
                found.append(_fewer(records[best], there))
    return found


def _fewer(best: kit.Record, others: list[kit.Record]) -> kit.Claim:
    """Fewer steps, by the sign test: a run that ends at the limit has no number."""
    methods = [steps(other) for other in others]
    label = "steps to 95 % test accuracy"
    claim = kit.ahead(label, steps(best), methods, sign=-1, digits=0, exact=True)
    ours = "; ".join(f"{own.settings['label']} {text(own)}" for own in (best, *others))
    return kit.Claim(claim.text, claim.source, ours, order=claim.order, why=claim.why)
