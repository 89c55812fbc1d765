"""Figure 3.16: AdLaLa's test accuracy over its temperature τ₁ and driving noise σ_A.

There are two maps, with the friction εξ as (3.31) is printed, and with ξ as in (2.58). Beside them,
over the coupling ε of both and over the temperature τ₂ of the output layer: section 3.6 gives
advice on these.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from colangevin.ensemble import Ensemble
from colangevin.lab import kit
from colangevin.lab.experiments.partitioned import partitioned

NAME = "partitioned-noise"
FULL: dict[str, Any] = {
    "runs": 10,
    "hidden": 100,
    "train_points": 1_000,
    "test_points": 1_000,
    "batch_size": 20,
    "steps": 50_000,
    "measurements": 10,
    "data": partitioned.FOUR_TURNS,
}
SCALES: dict[str, dict[str, Any]] = {
    "smoke": {
        **FULL,
        "runs": 1,
        "hidden": 4,
        "train_points": 60,
        "test_points": 20,
        "steps": 10,
        "measurements": 1,
    },
    "laptop": {**FULL, "runs": 3, "steps": 10_000},
    "full": FULL,
}
TEMPERATURES = (1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
NOISES = (0.0, 1e-4, 5e-4, 2e-3, 1e-2, 2e-2, 4e-2, 1e-1)
METHOD = {"kind": "adlala", "h": 0.1, "gamma": 0.03, "tau2": 1e-8, "epsilon": 0.1}
ADVISED = {"kind": "adlala", "h": 0.15, "gamma": 0.1, "tau": 1e-4, "tau2": 1e-4, "sigma": 1e-2}
"""The defaults of AdLaLa, without ε."""
COUPLINGS = (0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 2.0, 10.0)
LINES: dict[str, dict[str, Any]] = {
    "printed-epsilon": {
        "label": "coupling ε of (3.31)",
        "method": {**ADVISED, "equation": "3.31"},
        "varies": "epsilon",
        "values": COUPLINGS,
    },
    "epsilon": {
        "label": "coupling ε",
        "method": ADVISED,
        "varies": "epsilon",
        "values": COUPLINGS,
    },
    "tau2": {
        "label": "temperature τ₂ of the output layer",
        "method": {**ADVISED, "epsilon": 0.1},
        "varies": "tau2",
        "values": (0.0, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2),
    },
}
"""What is varied alone, the rest at its default."""
WORKING = (1e-2, 2e-2, 4e-2, 1e-1)
"""A decade of σ_A."""
SMALL = (1e-8, 1e-7, 1e-6, 1e-5)
MAPS = {"printed-tau": "3.31", "tau": "2.58"}
"""How the jobs of a map begin, and its equation. What others state is about the first."""
ZEROS = "zeros"
"""The job of a row of the first map with a start from zeros."""


def jobs(settings: kit.Settings) -> list[kit.Job]:
    """One job per temperature, a row of pixels as one ensemble; a row from zeros; lines."""
    rows = []
    for key, equation in MAPS.items():
        form: dict[str, Any] = {} if equation == "2.58" else {"equation": equation}
        for tau in TEMPERATURES:
            label = f"τ₁ = {tau:g}" + (f", ({equation})" if form else "")
            row = {**settings, "tau": tau, "label": label, **form}
            rows.append(kit.Job(NAME, f"{key}-{tau:g}", row))
    label = f"τ₁ = {SMALL[0]:g}, (3.31), from zeros"
    zeros = {**settings, "tau": SMALL[0], "label": label, "equation": "3.31", "zeros": True}
    lines = [
        kit.Job(NAME, key, {**settings, "label": line["label"], "varied": key})
        for key, line in LINES.items()
    ]
    return [*rows, kit.Job(NAME, ZEROS, zeros), *lines]


def methods_of(settings: kit.Settings) -> dict[str, dict[str, Any]]:
    """The methods of a job, by the value in which they differ.

    Example:
        >>> list(methods_of({"tau": 1e-4}))[:3]
        ['0', '0.0001', '0.0005']
        >>> methods_of({"varied": "epsilon"})["0.05"]["epsilon"]
        0.05
    """
    if "varied" in settings:
        line = LINES[settings["varied"]]
        key, base, values = line["varies"], line["method"], line["values"]
    else:
        key, base, values = "sigma", {**METHOD, "tau": settings["tau"]}, NOISES
        base["equation"] = settings.get("equation", "2.58")
    return {f"{value:g}": {**base, key: value} for value in values}


def run(job: kit.Job, log: kit.Log) -> None:
    """Train the runs of all pixels of a row side by side."""
    settings = job.settings
    runs, methods = settings["runs"], methods_of(settings)
    seeds = kit.seeds_of({**settings, "runs": runs * len(methods)})
    each = iter([method for method in methods.values() for _ in range(runs)])
    ensemble = Ensemble(
        lambda: partitioned.network(settings),
        seeds,
        method=lambda model: partitioned.optimizer(model, next(each)),
    )
    points = partitioned.draw_points(settings, seeds)
    if partitioned.train(ensemble, settings, points, log) is None:
        return
    last = log.record.values("test_accuracy")
    pixels = {name: last[i * runs : (i + 1) * runs] for i, name in enumerate(methods)}
    log.finish(pixels=pixels, removed=kit.ensembles.removals(ensemble))


def at(*values: float) -> kit.Quantity:
    """The accuracy at some values of a row of a map or of a line, all runs as one sample."""

    def read(record: kit.Record, key: str) -> list[float]:
        return [run for value in values for run in record.values(f"{key}/{value:g}")]

    return kit.Quantity("pixels", "test accuracy, %", 1, 100.0, 1, read=read)


def pixel(records: kit.Records, job: str, value: float) -> list[float]:
    """Test accuracies in % of the runs with a value; nothing if the job is not done."""
    return list(at(value).of(records[job]).values) if job in records else []


def mean(records: kit.Records, key: str, tau: float, sigma: float) -> float:
    """Mean of a pixel of a map."""
    return kit.mean_std(pixel(records, f"{key}-{tau:g}", sigma))[0]


def figures(records: kit.Records) -> dict[str, kit.Figure]:
    """The heat maps, and the lines."""
    drawn = {}
    if any(f"{key}-{tau:g}" in records for key in MAPS for tau in TEMPERATURES):
        drawn["map"] = _draw_maps(records)
    if any(key in records for key in LINES):
        drawn["lines"] = _draw_lines(records)
    return drawn


def _draw_maps(records: kit.Records) -> kit.Figure:

    titles = {"3.31": "friction εξ, (3.31) as printed", "2.58": "friction ξ, (2.58)"}
    figure, axes = kit.panels((13, 5.0), 1, len(MAPS), sharey=True)
    for axis, (key, equation) in zip(axes, MAPS.items(), strict=True):
        picture = _draw_map(axis, records, key)
        axis.set_title(titles[equation])
    axes[0].set_ylabel("temperature τ₁")
    figure.colorbar(picture, ax=axes, label="mean test accuracy, %")
    return figure


def _draw_map(axis: Any, records: kit.Records, key: str) -> Any:
    heights = np.array([[mean(records, key, t, sigma) for sigma in NOISES] for t in TEMPERATURES])
    picture = axis.imshow(heights, origin="lower", cmap="viridis", vmin=50, vmax=100)
    for (row, column), value in np.ndenumerate(heights):
        if np.isfinite(value):
            color = "white" if value < 80 else "black"
            style: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": 7}
            axis.text(column, row, f"{value:.0f}", color=color, **style)
    axis.set_xticks(range(len(NOISES)), [f"{sigma:g}" for sigma in NOISES])
    axis.set_yticks(range(len(TEMPERATURES)), [f"{tau:g}" for tau in TEMPERATURES])
    axis.set(xlabel="driving noise σ_A")
    return picture


def _draw_lines(records: kit.Records) -> kit.Figure:

    figure, axes = kit.panels((13, 3.6), 1, len(LINES), sharey=True)
    for axis, (key, line) in zip(axes, LINES.items(), strict=True):
        places = range(len(line["values"]))
        if key in records:
            values = [pixel(records, key, value) for value in line["values"]]
            axis.errorbar(places, *kit.mean_error(np.array(values)), fmt="o-", capsize=3)
        axis.set_xticks(places, [f"{value:g}" for value in line["values"]])
        axis.set(xlabel=line["label"])
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("test accuracy, %")
    kit.say_bands(figure)
    return figure


def table(records: kit.Records) -> kit.Table:
    """Mean ± deviation of every pixel; the lines follow below, with their own values."""
    rows = [
        [
            f"({equation}), {tau:g}",
            *[_cell(pixel(records, f"{key}-{tau:g}", sigma)) for sigma in NOISES],
        ]
        for key, equation in MAPS.items()
        for tau in TEMPERATURES
    ]
    rows.append(
        [
            f"(3.31), {SMALL[0]:g}, from zeros",
            *[_cell(pixel(records, ZEROS, sigma)) for sigma in NOISES],
        ]
    )
    for key, line in LINES.items():
        cells = [f"{value:g}: {_cell(pixel(records, key, value))}" for value in line["values"]]
        rows.append([line["label"], *cells])
    return kit.Table(["equation, τ₁ \\ σ_A", *[f"{sigma:g}" for sigma in NOISES]], rows)


def _cell(values: list[float]) -> str:
    return kit.summary(values, 1).partition(" (")[0] if values else "not run"


def _of_a_map(key: str) -> list[kit.Stated]:
    """A decade of σ_A works, none below 1e-3 does, and small τ₁ do not matter."""
    text = f"({MAPS[key]}): test accuracy"
    rows = [f"{key}-{tau:g}" for tau in SMALL]
    small, decade = kit.Of(rows, pooled=True), at(*WORKING)
    best = kit.Of(rows, strongest=True)
    worst = kit.Of(rows, replace(decade, sign=-1), strongest=True)
    weak = f"{text} at σ_A below 1e-3, τ₁ from 1e-8 to 1e-5, %"
    good = f"{text} at σ_A = 0.04, τ₁ from 1e-8 to 1e-5, %"
    same = f"{text} over a decade of σ_A at the best and the worst of these τ₁, %"
    return [
        kit.Inside(at(0.04), small, "near 100", low=90.0, text=good),
        kit.Inside(at(*[s for s in NOISES if s < 1e-3]), small, "chance", high=kit.COIN, text=weak),
        kit.Apart(decade, best, worst, "the same", -3.0, 3.0, shared=False, text=same),
    ]


def _of_coupling(key: str) -> kit.Stated:
    """The better of the two advised ε against all others."""
    each = {value: kit.Of(key, at(value), f"ε = {value:g}") for value in COUPLINGS}
    best = kit.Of([each.pop(0.05), each.pop(0.1)], strongest=True)
    text = f"test accuracy on four turns, %: {LINES[key]['label']} from 0.05 to 0.1"
    return kit.Ahead(at(), best, [*each.values()], text=text, shared=False)


COLDER = kit.Ahead(
    at(),
    kit.Of("tau2", at(1e-6), "τ₂ = 1e-06"),
    over=[kit.Of("tau2", at(1e-4), "τ₂ = 0.0001")],
    text="test accuracy on four turns, %: a colder output layer",
    shared=False,
)
EXPERIMENT = kit.Experiment(
    name=NAME,
    title="AdLaLa's accuracy on the four-turn spiral over temperature and driving noise",
    phrase="AdLaLa over temperature and driving noise",
    source="thesis figure 3.16 and section 3.6",
    claimed="""AdLaLa works for a decade of driving noise σ_A near 0.04, is no better than chance
        below 1e-3, and small τ₁ do not matter; ε from 0.05 to 0.1 is good""",
    ours="""the grid of 8 x 8; the lines have AdLaLa's defaults for the rest; (3.31) as printed and
        (2.58) are two parametrisations, with couplings ε² and ε""",
    settings_stated="""
        friction | εξ as (3.31) is printed | both: εξ (3.31), and ξ (2.58)
        grid | not stated | 8 x 8 values
        steps, nodes | 50,000, 100 | {steps}, {hidden}
        h, γ₂, τ₂, ε | 0.1, 0.03, 1e-8, 0.1 | the same
        runs | not stated | {runs}
    """,
    scales=SCALES,
    jobs=jobs,
    run=run,
    figures=figures,
    table=table,
    claims=[
        *[claim for key in MAPS for claim in _of_a_map(key)],
        *[_of_coupling(key) for key in LINES if key.endswith("epsilon")],
        COLDER,
    ],
    note="""The grid of 8 × 8 is ours; the thesis does not state its own. (3.31) as printed has the
        friction εξ, (2.58) has ξ. The lines over ε and τ₂ have AdLaLa's defaults (h = 0.15, γ₂ =
        0.1, τ₁ = τ₂ = 1e-4, σ_A = 0.01, ε = 0.1) for the rest. Every value has seeds of its own, so
        values differ in data and first weights, too; their means are compared. From zeros means
        that all weights and biases are 0 at first: without driving noise nothing moves the first
        layer then, and the accuracy is that of one answer for all points""",
    times={"smoke": "8 s", "laptop": "8 min", "full": "50 min"},
)
