"""Figures 3.9, 3.10, 3.14 and 3.15: AdLaLa, LOL and DHSGD beside Adam, SGD and SGLD on spirals."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from colangevin.diagnostics.boundary import boundary_lines
from colangevin.diagnostics.regions import Classifier
from colangevin.ensemble import Ensemble
from colangevin.lab import kit
from colangevin.lab.experiments.partitioned import partitioned
from colangevin.lab.experiments.spirals.findings import CLAIMS, COLUMNS, PICTURES

NAME = "partitioned-spirals"

FULL: dict[str, Any] = {
    "runs": 100,
    "grid_runs": 10,
    "hybrid_runs": 4,
    "region_runs": 5,
    "test_points": 1_000,
    "nodes": 100,
    "small_nodes": 20,
    "large_nodes": 500,
    "points": 1_000,
    "few_points": 500,
    "region_steps": 60_000,
    "grid_steps": 20_000,
    "robust_steps": 10_000,
    "hybrid_steps": 50_000,
    "first_steps": 2_500,
}
SCALES: dict[str, dict[str, Any]] = {
    "smoke": {
        **FULL,
        "runs": 2,
        "grid_runs": 2,
        "hybrid_runs": 2,
        "region_runs": 1,
        "test_points": 40,
        "nodes": 6,
        "small_nodes": 4,
        "large_nodes": 6,
        "points": 100,
        "few_points": 100,
        "region_steps": 30,
        "grid_steps": 10,
        "robust_steps": 10,
        "hybrid_steps": 100,
        "first_steps": 50,
    },
    "laptop": {
        **FULL,
        "runs": 20,
        "grid_runs": 4,
        "region_runs": 1,
        "region_steps": 20_000,
        "grid_steps": 10_000,
        "hybrid_steps": 20_000,
    },
    "full": FULL,
}
ADLALA = {"kind": "adlala", "h": 0.25, "sigma": 0.01, "tau": 1e-4, "gamma": 0.1, "epsilon": 0.05}
TWO_TURNS_ADLALA = {**ADLALA, "gamma": 0.5, "epsilon": 0.1}
REGIONS: dict[str, dict[str, Any]] = {
    "adam": {"label": "Adam", "weights": 0.5, "method": {"kind": "adam", "h": 0.005}},
    "adlala": {
        "label": "AdLaLa",
        "weights": 0.01,
        "method": {**ADLALA, "h": 0.1, "gamma": 0.03, "tau2": 1e-5, "epsilon": 0.1},
    },
    "adlala-printed": {
        "label": "AdLaLa, (3.31)",
        "weights": 0.01,
        "method": {
            **ADLALA,
            "h": 0.1,
            "gamma": 0.03,
            "tau2": 1e-5,
            "epsilon": 0.1,
            "equation": "3.31",
        },
    },
}
ROBUST: dict[str, dict[str, Any]] = {
    "sgd": {"label": "SGD, Gaussian", "weights": 0.01, "method": {"kind": "sgd", "h": 0.25}},
    "adam-gaussian": {
        "label": "Adam, Gaussian",
        "weights": 0.01,
        "method": {"kind": "adam", "h": 0.005},
    },
    "adam": {"label": "Adam, PyTorch", "method": {"kind": "adam", "h": 0.005}},
    "lol": {
        "label": "LOL, Gaussian",
        "weights": 0.01,
        "method": {"kind": "lol", "h": 0.25, "gamma": 0.01, "tau": 1e-3},
    },
    "adlala-gaussian": {
        "label": "AdLaLa, Gaussian",
        "weights": 0.01,
        "method": TWO_TURNS_ADLALA,
    },
    "adlala": {"label": "AdLaLa, PyTorch", "method": TWO_TURNS_ADLALA},
}
SIGMAS = (0.0, 0.005, 0.01, 0.05, 0.1)
STEPS = (0.1, 0.5, 1.0)
ADAMS = (0.001, 0.005, 0.01, 0.05)
SGDS = (0.05, 0.1, 0.15, 0.2)
FIRST = (0.1, 0.2)
PARTS: dict[str, tuple[str, str, str, str, dict[str, float]]] = {
    "regions": (
        "region_runs",
        "large_nodes",
        "points",
        "region_steps",
        {"turns": 4.0, "power": 1.0},
    ),
    "grid": ("grid_runs", "nodes", "points", "grid_steps", partitioned.FOUR_TURNS),
    "three": ("grid_runs", "nodes", "points", "grid_steps", {"turns": 3.0}),
    "robust": ("runs", "small_nodes", "few_points", "robust_steps", partitioned.TWO_TURNS),
    "hybrid": ("hybrid_runs", "nodes", "points", "hybrid_steps", partitioned.FOUR_TURNS),
}
"""For each figure: the settings that give runs, nodes, training points and steps; and the data."""
AVERAGED = 10
"""Networks whose probabilities are averaged for a picture, one per epoch."""


def jobs(settings: kit.Settings) -> list[kit.Job]:
    """Regions, the grid of figure 3.10 on four and three turns, robustness, the hybrid method."""
    shared = {key: settings[key] for key in ("scale", "seed", "test_points")}
    return [
        kit.Job(NAME, name, {**shared, **own})
        for part in (_regions, _grid, _robust, _hybrid)
        for name, own in part(settings).items()
    ]


def _shared(settings: kit.Settings, part: str) -> dict[str, Any]:
    """What all jobs of a part have in common."""
    runs, nodes, points, steps, data = PARTS[part]
    return {
        "part": part,
        "runs": int(min(settings["runs"], settings[runs])),
        "hidden": settings[nodes],
        "train_points": settings[points],
        "batch_size": settings[points] // 50,
        "steps": settings[steps],
        "data": data,
    }


def _regions(settings: kit.Settings) -> dict[str, dict[str, Any]]:
    shared = _shared(settings, "regions")
    return {f"regions-{name}": {**shared, **own} for name, own in REGIONS.items()}


def _grid(settings: kit.Settings) -> dict[str, dict[str, Any]]:
    return {
        f"{part}-{name}": {**_shared(settings, part), **own}
        for part in ("grid", "three")
        for name, own in _methods().items()
    }


def _methods() -> dict[str, dict[str, Any]]:
    """AdLaLa, and what it is compared with in figure 3.10."""
    found: dict[str, dict[str, Any]] = {
        "adlala": {"label": "AdLaLa", "method": ADLALA},
        "adlala-printed": {"label": "AdLaLa, (3.31)", "method": {**ADLALA, "equation": "3.31"}},
    }
    for sigma in SIGMAS:
        for h in STEPS:
            kind = "sgld" if sigma else "sgd"
            label = f"SGLD, σ = {sigma:g}, h = {h:g}" if sigma else f"SGD, h = {h:g}"
            method = {"kind": kind, "h": h, "sigma": sigma}
            found[f"sgld-{sigma:g}-{h:g}"] = {"label": label, "method": method}
    for h in ADAMS:
        method = {"kind": "adam", "h": h}
        found[f"adam-{h:g}"] = {"label": f"Adam, h = {h:g}", "method": method}
    return found


def _robust(settings: kit.Settings) -> dict[str, dict[str, Any]]:
    shared = _shared(settings, "robust")
    return {f"robust-{name}": {**shared, **own} for name, own in ROBUST.items()}


def _hybrid(settings: kit.Settings) -> dict[str, dict[str, Any]]:
    shared = _shared(settings, "hybrid")
    found = {}
    for h in SGDS:
        method = {"kind": "sgd", "h": h}
        alone = {**shared, "label": f"SGD, h = {h:g}", "method": method}
        found[f"hybrid-none-{h:g}"] = alone
        for first in FIRST:
            label = f"DHSGD, h = {first:g}, then SGD, h = {h:g}"
            own = {"first": {"kind": "dhsgd", "h": first}, "first_steps": settings["first_steps"]}
            found[f"hybrid-{first:g}-{h:g}"] = {**shared, **own, "label": label, "method": method}
    return found


def run(job: kit.Job, log: kit.Log) -> None:
    """Do a job of one of the parts."""
    part = job.settings["part"]
    if part == "regions":
        _run_regions(job, log)
    elif "first" in job.settings:
        _run_hybrid(job, log)
    else:
        partitioned.run(job, log)


def _run_regions(job: kit.Job, log: kit.Log) -> None:
    """Pictures at a third, two thirds and the end, averaged over ten epochs before each."""
    settings = job.settings
    epochs, extent = partitioned.epochs_of(settings), partitioned.extent_of(settings)
    thirds = [max(1, round(epochs * part / 3)) for part in (1, 2, 3)]

    def observe(ensemble: Ensemble) -> dict[str, Any] | None:
        due = next((t for t in thirds if t - AVERAGED < ensemble.epochs <= t), None)
        if due is None or not ensemble.active or ensemble.epochs == 0:
            return None
        return {"third": due, "grid": partitioned.probabilities(ensemble, 0, extent, 120)}

    ready = partitioned.trained(log, observe)
    if ready is None:
        return
    ensemble, kept = ready
    points = partitioned.draw_points(settings, kit.seeds_of(settings)[:1])
    pictures = []
    for third in dict.fromkeys(thirds):
        grids = [one["grid"].float() for one in kept if one["third"] == third]
        if grids:
            mean = torch.stack(grids).mean(dim=0).round().to(torch.uint8)
            pictures.append({"epoch": third, "grid": kit.pack(mean)})
    shared = {
        "extent": extent,
        "points": kit.pack(points.test_inputs[0]),
        "labels": kit.pack(points.test_labels[0]),
    }
    turns = torch.tensor([turning(model, extent[1]) for model in ensemble])
    log.finish(
        pictures=pictures,
        picture=shared,
        turning=kit.ensembles.everyone(ensemble, turns),
        removed=kit.ensembles.removals(ensemble),
    )


def turning(classifier: Classifier, extent: float, grid: int = 500, spacing: float = 0.05) -> float:
    """By what angle the boundary turns per unit of length, seen at some distance.

    The boundary is walked in strides of the spacing, and the angles between them are added up:
    a straight line has 0, a circle of radius r 1/r, a boundary that wiggles more. Its curvature
    (4.60) would not do here: the boundary of a ReLU network consists of straight pieces.

    Example:
        >>> disc = lambda points: 0.25 - points.square().sum(dim=1)
        >>> abs(turning(disc, 1.2) - 2) < 0.1
        True
    """
    angles = length = 0.0
    for line in boundary_lines(classifier, extent, grid):
        places = np.concatenate([[0.0], np.hypot(*np.diff(line, axis=0).T).cumsum()])
        strides = np.arange(0.0, places[-1], spacing)
        steps = [np.diff(np.interp(strides, places, column)) for column in line.T]
        directions = np.unwrap(np.arctan2(steps[1], steps[0]))
        angles += float(np.abs(np.diff(directions)).sum())
        length += float(places[-1])
    return angles / length if length else math.nan


def _run_hybrid(job: kit.Job, log: kit.Log) -> None:
    """DHSGD with momenta 0 at the start, then SGD from where it has come to."""
    settings = job.settings
    seeds = kit.seeds_of(settings)
    points = partitioned.draw_points(settings, seeds)
    first = partitioned.epochs_of(settings, settings["first_steps"])
    saved = log.load()
    begun = saved["kept"] if saved is not None else []
    if not any("state" in one for one in begun):
        opening = partitioned.make({**settings, "method": settings["first"]}, seeds)
        kept = partitioned.train(
            opening,
            settings,
            points,
            log,
            lambda e: {"state": _states(e)} if e.epochs == first else None,
            until=first,
        )
        if kept is None:
            return
        log.checkpoint.unlink(missing_ok=True)  # it is of the first optimizer
        begun = kept
    states = next(one["state"] for one in begun if "state" in one)
    ensemble = partitioned.make(settings, seeds, lambda seed: _network(settings, states[seed]))
    ensemble.epochs = first
    if partitioned.train(ensemble, settings, points, log, kept=begun) is not None:
        log.finish(removed=kit.ensembles.removals(ensemble))


def _states(ensemble: Ensemble) -> dict[int, Any]:
    return {
        ensemble.seeds[index]: {
            name: tensor.clone() for name, tensor in ensemble.member(index).state_dict().items()
        }
        for index in ensemble.active
    }


def _network(settings: kit.Settings, state: dict[str, Any]) -> torch.nn.Module:
    model = partitioned.network(settings)
    model.load_state_dict(state)
    return model


EXPERIMENT = kit.Experiment(
    name=NAME,
    title="AdLaLa, LOL and DHSGD beside Adam, SGD and SGLD on spirals of two to four turns",
    phrase="AdLaLa, LOL and DHSGD on spirals",
    source="thesis figures 3.9, 3.10, 3.14 and 3.15",
    claimed="""on spirals AdLaLa, LOL and hybrids reach a higher accuracy than Adam, SGD and
        SGLD, and vary less over runs and first weights""",
    ours="""steps h of SGLD and Adam in figure 3.10, 10,000 steps in figure 3.14, 100 nodes in
        figure 3.15, biases with Gaussian first weights; three turns""",
    settings_stated="""
        friction of AdLaLa | εξ as (3.31) is printed; ξ in the authors' PyTorch code | ξ (2.58),
          unless (3.31) is named
        first weights in figure 3.14 | 0.01 N(0, 1) for the weights | for weights and biases
        steps in figure 3.14 | not stated | 10,000
        nodes in figure 3.15 | not stated | 100
        runs | 100 in figure 3.14 | {runs}
    """,
    scales=SCALES,
    jobs=jobs,
    run=run,
    figures=PICTURES,
    table=COLUMNS,
    claims=CLAIMS,
    note="In figure 3.9 smoothness is the angle by which the last networks' boundaries turn per "
    "length, in strides of 0.05, and pictures are averaged over the ends of ten epochs instead of "
    f"ten steps. Three turns have the settings of four. {partitioned.LATE}",
    times={"smoke": "12 s", "laptop": "5 min", "full": "15 min"},
)
