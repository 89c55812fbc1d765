"""Figure 4.11 and table 4.5: C-SGLD on the two-turn spiral at temperatures from 0 to 5e-4."""

from __future__ import annotations

import numpy as np

from colangevin.lab import kit
from colangevin.lab.experiments.spirals import curvature_table, spiral
from colangevin.lab.experiments.spirals.curvature import curvatures
from colangevin.lab.experiments.spirals.curvature_table import cells, runs_of, total, typical
from colangevin.lab.experiments.spirals.plot import CURVES

PAPER = {
    0.0: (9.38, 317.0, 5.58e5),
    1e-6: (9.01, 273.0, 1.63e6),
    5e-6: (7.75, 166.0, 5.86e5),
    1e-5: (7.06, 108.0, 4.06e5),
    5e-5: (6.08, 40.8, 1.43e5),
    1e-4: (7.62, 178.0, 9.47e5),
    5e-4: (15.9, 850.0, 5.07e6),
}
"""Mean, standard deviation and largest curvature in table 4.5."""
BEST = "tau-5e-05"


METHODS = {
    f"tau-{tau:g}": {"label": f"τ = {tau:g}", "radii": spiral.RADII, "temperature": tau}
    for tau in PAPER
}


def run(job: kit.Job, log: kit.Log) -> None:
    """Train all runs at a temperature and measure their boundaries."""
    settings = job.settings
    ready = spiral.trained(log, settings["radii"], settings["temperature"])
    if ready is None:
        return
    ensemble, points = ready
    found = curvatures(ensemble, settings, log)
    if found is None:
        return
    measured = spiral.measure(ensemble, points)
    log.finish(
        **{name: kit.ensembles.everyone(ensemble, values) for name, values in measured.items()},
        curvature=found,
        removed=kit.ensembles.removals(ensemble),
    )


def draw(records: kit.Records) -> kit.Figure:
    """Accuracy and curvature against the temperature."""
    figure, (left, right) = kit.panels((10, 4), 1, 2)
    places = range(len(records))
    labels = [f"{record.settings['temperature']:g}" for record in records.values()]
    values = np.array([spiral.ACCURACY.of(record).values for record in records.values()])
    left.errorbar(places, *kit.mean_error(values), fmt="o-", capsize=3)
    left.set(ylabel="test accuracy, %")
    means = [total(runs_of(record)).mean for record in records.values()]
    right.plot(places, means, "o-", label="mean of all points")
    medians = [typical(record) for record in records.values()]
    right.plot(places, medians, "^:", label="median of the runs' means")
    paper = [PAPER[record.settings["temperature"]][0] for record in records.values()]
    right.plot(places, paper, "s--", color="gray", label="paper: mean")
    right.set(ylabel="mean curvature")
    kit.plain_logarithms(right)
    right.legend()
    for axis in (left, right):
        axis.set(xlabel="temperature", xticks=list(places))
        axis.set_xticklabels(labels)
        axis.grid(alpha=0.3)
    kit.say_bands(figure)
    return figure


def table(records: kit.Records) -> kit.Table:
    """Table 4.5 with accuracies."""
    rows = [
        [
            f"{record.settings['temperature']:g}",
            spiral.ACCURACY.text(record),
            spiral.LOSS.text(record),
            *cells(record, PAPER[record.settings["temperature"]]),
        ]
        for record in records.values()
    ]
    return kit.Table(["τ", "test accuracy, %", "test loss", *curvature_table.COLUMNS], rows)


def curvature(records: kit.Records) -> list[kit.Claim]:
    """The best temperature by curvature, and the numbers of table 4.5."""
    paper = {record.job: PAPER[record.settings["temperature"]] for record in records.values()}
    found = [curvature_table.numbers(records, paper)]
    rest = [own for job, own in records.items() if job != BEST]
    if BEST in records and rest:
        found.insert(0, curvature_table.less(records[BEST], rest))
    return found


EXPERIMENT = kit.Experiment(
    name="spiral-temperature",
    title="C-SGLD on the two-turn spiral at seven temperatures",
    phrase="C-SGLD at seven temperatures",
    source="figure 4.11 and table 4.5",
    claimed="the temperature 5e-5 is the best of seven, by test accuracy and by mean curvature",
    ours="the extent of the grid of the curvature, [-1.2, 1.2]²; every run draws its own data",
    settings_stated="""
        temperatures | 0 to 5e-4, seven | the same seven
        extent of the grid | not stated | [-1.2, 1.2]²
        network | 1 hidden layer, 500 nodes | {hidden} nodes
        step size h, batch | 0.05, 2 % | {lr}, {batch_size} of {train_points} points
        radii of the circles, temperature | 1 and 5, 5e-5 | 1 and 5, 5e-5
        epochs, runs | 10,000, 100 | {epochs}, {runs}
        data | one draw for all runs, as figure 2 suggests | every run draws its own
        points of the two arms | mirrored in the authors' code | drawn for each arm
    """,
    scales=spiral.SCALES,
    jobs=METHODS,
    run=run,
    figures={"temperature": draw, "curves": CURVES},
    table=table,
    claims=[kit.Ahead(spiral.ACCURACY, BEST, over=("*",)), curvature],
    note=curvature_table.NOTE,
    gpus=True,
    times={"smoke": "7 s", "laptop": "6 min", "full": "40 min"},
)
