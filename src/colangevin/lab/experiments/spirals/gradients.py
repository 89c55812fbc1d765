"""Figure 3: how sharply predictions change along two sections, by method and by radius."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from colangevin.diagnostics.boundary import section_gradients
from colangevin.lab import kit
from colangevin.lab.experiments.spirals import spiral

NAME = "spiral-gradients"
INPUT_RADII = (0.5, 1.0, 2.0, 5.0)
RADIUS_RUNS = 30
EXTENT, GRID = 1.2, 1000
SHOWN = 250
"""Points of a section that the record keeps."""
EVERY = [
    kit.Quantity("average_x", "mean along y = 0"),
    kit.Quantity("largest_x", "largest gradient along y = 0"),
    kit.Quantity("average_y", "mean along x = 0"),
    kit.Quantity("largest_y", "largest gradient along x = 0"),
]
SHARPEST = EVERY[1::2]


def jobs(settings: kit.Settings) -> list[kit.Job]:
    """One job per method, and one per radius of the input layer's circles."""
    methods = [kit.Job(NAME, name, {**settings, **own}) for name, own in spiral.METHODS.items()]
    fewer = {**settings, "runs": min(settings["runs"], RADIUS_RUNS)}
    radii = [
        kit.Job(
            NAME,
            f"r0-{radius:g}",
            {
                **fewer,
                **spiral.METHODS["c-sgld"],
                "label": f"C-SGLD, r₀ = {radius:g}",
                "radii": (radius, spiral.RADII[1]),
            },
        )
        for radius in INPUT_RADII
    ]
    return methods + radii


def run(job: kit.Job, log: kit.Log) -> None:
    """Measure the trained networks of the classifiers' run, or train them."""
    settings = job.settings
    ready = spiral.trained(log, settings.get("radii"), settings.get("temperature", 0.0))
    if ready is None:
        return
    ensemble = ready[0]
    sections = [section_gradients(net, EXTENT, GRID) for net in spiral.networks(ensemble)]
    final: dict[str, Any] = {"removed": kit.ensembles.removals(ensemble)}
    for name, slopes in zip(("x", "y"), zip(*sections, strict=True), strict=True):
        stacked = torch.stack(slopes)
        final[f"mean_{name}"] = kit.pack(_thinned(stacked.mean(dim=0)))
        final[f"average_{name}"] = kit.ensembles.everyone(ensemble, stacked.mean(dim=1))
        final[f"largest_{name}"] = kit.ensembles.everyone(ensemble, stacked.amax(dim=1))
    log.finish(**final)


def _thinned(section: Tensor) -> Tensor:
    return section.reshape(SHOWN, -1).mean(dim=1)


def draw(records: kit.Records) -> kit.Figure:
    """Mean gradient along y = 0 by radius and by method, and along x = 0 by method."""
    figure, axes = kit.panels((14, 4), 1, 3)
    panels = (
        ("x", True, "|∂p/∂x| along y = 0, by radius"),
        ("x", False, "|∂p/∂x| along y = 0"),
        ("y", False, "|∂p/∂y| along x = 0"),
    )
    places = torch.linspace(-EXTENT, EXTENT, SHOWN)
    for axis, (name, by_radius, title) in zip(axes, panels, strict=True):
        shown = [r for job, r in records.items() if job.startswith("r0-") is by_radius]
        for color, record in zip(kit.COLORS, shown, strict=False):
            values = kit.unpack(record.final[f"mean_{name}"]).float()
            axis.plot(places, values, color=color, lw=1.2, label=record.label)
        axis.set(title=title, xlabel=name, yscale="log", ylim=(1e-2, None))
        axis.grid(alpha=0.3)
        if shown:
            axis.legend(fontsize=8)
    axes[0].set_ylabel("mean over the runs")
    return figure


def _growth(all_records: kit.Records) -> list[kit.Claim]:
    """The radius controls the sharpness."""
    records = all_records.named("r0-*")
    if len(records) < 2:
        return []
    sharpest = SHARPEST[0]
    leads = [kit.lead(sharpest.of(b), sharpest.of(a)) for a, b in pairwise(records)]
    listed = ", ".join(f"{r.settings['radii'][0]:g}: {sharpest.text(r)}" for r in records)
    text = f"{sharpest.label} against r₀"
    return [kit.Claim(text, "grows with r₀", listed, order=kit.answer(leads))]


EXPERIMENT = kit.Experiment(
    name=NAME,
    title="gradients of the predictions on the two-turn spiral along two sections",
    phrase="gradients of the predictions",
    source="figure 3",
    claimed="""predictions of C-SGLD change less sharply along two sections than those of SGD, and
        more sharply for larger circles""",
    ours="the extent of the sections, ±1.2; at most 30 runs for a radius",
    settings_stated="""
        radii r₀ of the first layer | 0.5 to 5 | 0.5, 1, 2, 5
        network | 1 hidden layer, 500 nodes | {hidden} nodes
        step size h, batch | 0.05, 2 % | {lr}, {batch_size} of {train_points} points
        radii of the circles, temperature | 1 and 5, 5e-5 | 1 and 5, 5e-5
        epochs, runs | 10,000, 100 | {epochs}, {runs}
        data | one draw for all runs, as figure 2 suggests | every run draws its own
        points of the two arms | mirrored in the authors' code | drawn for each arm
    """,
    scales=spiral.SCALES,
    jobs=jobs,
    run=run,
    figures={"gradients": draw},
    table=[kit.METHOD, *EVERY],
    claims=[*[kit.Ahead(own, "c-sgld", over=("sgd",)) for own in SHARPEST], _growth],
    note=(
        "The networks of spiral-classifiers where they are in the same output directory; "
        f"at most {RADIUS_RUNS} runs per radius."
    ),
    times={"smoke": "9 s", "laptop": "4 min", "full": "40 min"},
)
