"""What experiments are written with: ``from colangevin.lab import kit``, then ``kit.Ahead``.

An experiment is one file with an ``EXPERIMENT``: methods, table, curves and claims as data.

Example:
    >>> from colangevin.lab import kit
    >>> accuracy = kit.Quantity("test_accuracy", "test accuracy, %", sign=1, factor=100.0, digits=1)
    >>> found = kit.Experiment(
    ...     name="noise",
    ...     title="SGD with and without noise",
    ...     source="figure 1",
    ...     scales={"full": {"runs": 5}},
    ...     jobs={"sgd": {"label": "SGD"}, "sgld": {"label": "SGLD", "tau": 1e-4}},
    ...     run=lambda job, log: None,
    ...     table=[kit.METHOD, kit.Column("temperature", "tau"), accuracy],
    ...     figures={"curves": kit.Curves([accuracy])},
    ...     claims=[
    ...         kit.Ahead(accuracy, "sgld", over=("sgd",)),
    ...         kit.Near(accuracy, "sgd", "81", text="accuracy of SGD, %"),
    ...         kit.Inside(accuracy, "sgld", "above 90", low=90.0),
    ...     ],
    ... )

What ``run`` has written is judged like this:

    >>> runs = [[0.81, 0.82, 0.80, 0.81, 0.82], [0.91, 0.93, 0.90, 0.91, 0.92]]
    >>> records = kit.Records(
    ...     kit.Record("noise", job.name, place, job.settings, final={"test_accuracy": own})
    ...     for place, (job, own) in enumerate(zip(found.plan({"runs": 5}), runs, strict=True))
    ... )
    >>> for claim in found.judge(records):
    ...     print(claim.source, "|", *claim.answers)
    SGLD > SGD | yes (paired t, n = 5, p < 1e-6)
    81 | yes (t, n = 5, p = 1)
    above 90 | undecided (t, n = 5, p = 0.052)
    >>> found.tabulate(records).rows
    [['SGD', '–', '81.2 ± 0.8 (5 runs)'], ['SGLD', '0.0001', '91.4 ± 1.1 (5 runs)']]
"""

from __future__ import annotations

from colangevin.diagnostics.significance import mean_std, of_pairs
from colangevin.lab.claims.columns import METHOD, NONE, VIOLATION, Column, Pivot
from colangevin.lab.claims.comparing import (
    CHANCE,
    COIN,
    Measured,
    Quantity,
    ahead,
    answer,
    computed,
    inside,
    late,
    lead,
    lead_of_means,
    most,
    number,
    over_time,
    spreads,
    undecided,
    within,
)
from colangevin.lab.claims.curves import (
    COLORS,
    STYLES,
    Curves,
    Figure,
    band,
    draw_curves,
    factor_of,
    mean_error,
    panels,
    plain_logarithms,
    say_bands,
    shared_legend,
)
from colangevin.lab.claims.stated import Ahead, Apart, Inside, Most, Near, Of, Stated
from colangevin.lab.runner import ensembles, training
from colangevin.lab.runner.datasets import LOADERS
from colangevin.lab.runner.experiment import (
    NO,
    NOT_COMPARABLE,
    RUNS,
    UNDECIDED,
    YES,
    Answer,
    Claim,
    Drawing,
    Experiment,
    Job,
    Judgement,
    Settings,
    Table,
    seeds_of,
)
from colangevin.lab.runner.experiment import Column as TableColumn
from colangevin.lab.runner.job_log import Log, pack, read_tensors, unpack
from colangevin.lab.runner.records import Record, Records, summary
from colangevin.lab.runner.values import plain
from colangevin.lab.runner.writing import replacing

__all__ = [
    "CHANCE",
    "COIN",
    "COLORS",
    "LOADERS",
    "METHOD",
    "NO",
    "NONE",
    "NOT_COMPARABLE",
    "RUNS",
    "STYLES",
    "UNDECIDED",
    "VIOLATION",
    "YES",
    "Ahead",
    "Answer",
    "Apart",
    "Claim",
    "Column",
    "Curves",
    "Drawing",
    "Experiment",
    "Figure",
    "Inside",
    "Job",
    "Judgement",
    "Log",
    "Measured",
    "Most",
    "Near",
    "Of",
    "Pivot",
    "Quantity",
    "Record",
    "Records",
    "Settings",
    "Stated",
    "Table",
    "TableColumn",
    "ahead",
    "answer",
    "band",
    "computed",
    "draw_curves",
    "ensembles",
    "factor_of",
    "inside",
    "late",
    "lead",
    "lead_of_means",
    "mean_error",
    "mean_std",
    "most",
    "number",
    "of_pairs",
    "over_time",
    "pack",
    "panels",
    "plain",
    "plain_logarithms",
    "read_tensors",
    "replacing",
    "say_bands",
    "seeds_of",
    "shared_legend",
    "spreads",
    "summary",
    "training",
    "undecided",
    "unpack",
    "within",
]
