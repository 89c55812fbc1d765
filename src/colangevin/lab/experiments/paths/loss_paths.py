"""Figures 3.3 to 3.5, 6.1A and 6.17: the loss along lines, on MNIST and on spirals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from colangevin.diagnostics import Line, loss_paths, relative_distance
from colangevin.ensemble import Ensemble
from colangevin.lab import kit
from colangevin.lab.data import Spiral, Trigonometric
from colangevin.lab.experiments.partitioned import partitioned
from colangevin.lab.experiments.partitioned.adam import AdamEnsemble
from colangevin.lab.experiments.paths import path_findings
from colangevin.lab.experiments.paths.path_findings import by_line
from colangevin.lab.models import mlp
from colangevin.lab.runner import datasets

NAME = "loss-paths"
PARTS = ("methods", "starts", "layers")
FULL: dict[str, Any] = {
    "runs": 10,
    "points": 51,
    "surface_points": 21,
    "images": 60_000,
    "test_images": 2_000,
    "image_epochs": 3,
    "spiral_points": 10_000,
    "spiral_tests": 5_000,
    "spiral_epochs": 300,
    "turn_epochs": 1_000,
    "deep_epochs": 100,
    "wide_epochs": 20,
    "wide_tests": 1_000,
    "wide": 500,
    "narrow": 50,
}
SCALES: dict[str, dict[str, Any]] = {
    "smoke": {
        **FULL,
        "runs": 2,
        "points": 5,
        "surface_points": 3,
        "images": 60,
        "test_images": 20,
        "image_epochs": 1,
        "spiral_points": 60,
        "spiral_tests": 20,
        "spiral_epochs": 1,
        "turn_epochs": 1,
        "deep_epochs": 1,
        "wide_epochs": 1,
        "wide_tests": 20,
        "wide": 8,
        "narrow": 4,
    },
    "laptop": {**FULL, "runs": 3, "images": 10_000, "wide_epochs": 5},
    "full": FULL,
}
ADAM = {"kind": "adam", "h": 0.005}
SLOW_ADAM = {"kind": "adam", "h": 5e-4}
ADLALA = {
    "kind": "adlala",
    "h": 0.25,
    "sigma": 0.01,
    "tau": 1e-4,
    "gamma": 0.5,
    "epsilon": 0.1,
}
IMAGE_ADLALA = {**ADLALA, "h": 0.2, "tau": 1e-6, "sigma": 1e-3, "gamma": 1.0}
"""Figure 3.3 does not state AdLaLa's settings on MNIST."""
AGAIN = "adam again"
"""Adam once more, from the same first weights with other batches: the second end of a surface."""
OTHER = 500
"""How far the seeds of these batches are from the others."""


class Data(NamedTuple):
    """Inputs and targets to train on, and to measure on."""

    inputs: Tensor
    targets: Tensor
    test_inputs: Tensor
    test_targets: Tensor


def jobs(settings: kit.Settings) -> list[kit.Job]:
    """Two methods from one start (3.3 to 3.5), three lines (6.1A), and lines by layer (6.17)."""
    shared = {key: settings[key] for key in ("scale", "seed", "runs", "points")}
    images = {
        "task": "mnist",
        "images": settings["images"],
        "tests": settings["test_images"],
        "epochs": settings["image_epochs"],
        "batch_size": 128,
    }
    turns = {"epochs": settings["turn_epochs"], "batch_size": 25, "train_points": 500, "tests": 500}
    both = {"adam": ADAM, "adlala": ADLALA, AGAIN: {**ADAM, "again": True}}
    surface = {"lines": "methods", "surface": settings["surface_points"]}
    plane = {**shared, **turns, **surface, "widths": [20], "methods": both}
    spiral = {
        "task": "spiral",
        "train_points": settings["spiral_points"],
        "tests": settings["spiral_tests"],
        "batch_size": 500,
        "methods": {"adam": SLOW_ADAM},
    }
    two = {"data": {"turns": 2.0}}
    narrow, wide = settings["narrow"], settings["wide"]
    image_adam = {"kind": "adam", "h": 1e-3}
    image_both = {"adam": image_adam, "adlala": IMAGE_ADLALA, AGAIN: {**image_adam, "again": True}}
    lines = {"lines": "starts", "widths": [50, 50]}
    found = {
        "methods-mnist": {**shared, **images, **surface, "widths": [100], "methods": image_both},
        "methods-one": {**plane, "task": "spiral", "data": {"turns": 1.0}},
        "methods-two": {**plane, "task": "spiral", **two},
        "methods-trigonometric": {**plane, "task": "trigonometric", "data": {"scale": 6.0}},
        "starts-mnist": {**shared, **images, **lines, "methods": {"adam": SLOW_ADAM}},
        "starts-spiral": {**shared, **spiral, **two, **lines, "epochs": settings["spiral_epochs"]},
    }
    deep = {**spiral, **two, "lines": "layers", "epochs": settings["deep_epochs"]}
    broad = {**shared, **deep, "epochs": settings["wide_epochs"], "tests": settings["wide_tests"]}
    found["layers-narrow"] = {**shared, **deep, "widths": [narrow] * 6}
    found["layers-wide"] = {**broad, "widths": [wide] * 6}
    found["layers-mixed"] = {**broad, "widths": [wide] * 4 + [max(1, wide // 20)] * 2}
    return [kit.Job(NAME, name, own) for name, own in found.items()]


def read_data(settings: kit.Settings, folder: Path | None) -> Data:
    """The data of a job, which its runs share."""
    if settings["task"] == "mnist":
        found = datasets.LOADERS["mnist"](folder)
        inputs, tests = [
            (images.flatten(1).float() / 255 - 0.1307) / 0.3081
            for images in (found.train_images[: settings["images"]], found.test_images)
        ]
        labels = found.train_labels[: settings["images"]]
        count = settings["tests"]
        return Data(inputs, labels, tests[:count], found.test_labels[:count])
    generator = torch.Generator().manual_seed(1000 * settings["seed"] + 61)
    kind = Trigonometric if settings["task"] == "trigonometric" else Spiral
    plane = kind(**settings["data"])
    inputs, labels = plane.sample(settings["train_points"], generator=generator)
    tests, test_labels = plane.sample(settings["tests"], generator=generator)
    return Data(inputs, labels.float(), tests, test_labels.float())


def network(settings: kit.Settings) -> nn.Sequential:
    """A perceptron of the job's widths."""
    image = settings["task"] == "mnist"
    return mlp(784 if image else 2, settings["widths"], 10 if image else 1)


def loss(outputs: Tensor, targets: Tensor) -> Tensor:
    """Cross entropy, binary for networks with one output."""
    if outputs.shape[-1] == 1:
        return partitioned.loss(outputs, targets)
    return functional.cross_entropy(outputs, targets)


def accuracy(outputs: Tensor, targets: Tensor) -> Tensor:
    """Share of right labels."""
    if outputs.shape[-1] == 1:
        return partitioned.accuracy(outputs, targets)
    return (outputs.argmax(dim=1) == targets).float().mean()


def train(
    settings: kit.Settings, data: Data, seeds: Sequence[int], log: kit.Log
) -> dict[str, Ensemble] | None:
    """Train all methods from the same first weights; None if the user wanted an end."""
    saved = log.load() or {"done": {}, "ensemble": None}
    found: dict[str, Ensemble] = {}
    methods = settings["methods"]
    for place, (name, method) in enumerate(methods.items()):
        ensemble = _make(settings, method, seeds)
        if name in saved["done"]:
            ensemble.load_state_dict(saved["done"][name])
        elif saved["ensemble"] is not None:
            ensemble.load_state_dict(saved["ensemble"])
            saved["ensemble"] = None
        while ensemble.epochs < settings["epochs"]:
            ensemble.epoch(loss, data.inputs, data.targets, batch_size=settings["batch_size"])
            share = (place + ensemble.epochs / settings["epochs"]) / len(methods)
            if not log.advance(0.9 * share, partial(_state, found, ensemble)):
                return None
        found[name] = ensemble
    return found


def _state(found: Mapping[str, Ensemble], ensemble: Ensemble) -> dict[str, Any]:
    done = {key: one.state_dict() for key, one in found.items()}
    return {"done": done, "ensemble": ensemble.state_dict()}


def _make(settings: kit.Settings, method: Mapping[str, Any], seeds: Sequence[int]) -> Ensemble:
    if method.get("again"):
        return AdamEnsemble(
            lambda seed: _first(settings, seed - OTHER),
            [seed + OTHER for seed in seeds],
            lr=method["h"],
        )
    if method["kind"] == "adam":
        return AdamEnsemble(lambda: network(settings), seeds, lr=method["h"])
    return Ensemble(
        lambda: network(settings),
        seeds,
        method=lambda model: partitioned.optimizer(model, method),
    )


def _first(settings: kit.Settings, seed: int) -> nn.Module:
    """The network that an ensemble makes for a seed."""
    torch.manual_seed(seed)
    return network(settings)


def run(job: kit.Job, log: kit.Log) -> None:
    """Train, and evaluate the lines of all runs."""
    settings = job.settings
    data, seeds = read_data(settings, log.data), kit.seeds_of(settings)
    trained = train(settings, data, seeds, log)
    if trained is None:
        return
    first = _make(settings, next(iter(settings["methods"].values())), seeds)
    model, starts = network(settings), [first.member(i).state_dict() for i in range(len(seeds))]
    ends = {
        name: [one.member(i).state_dict() for i in range(len(seeds))]
        for name, one in trained.items()
    }
    measured = {name: one for name, one in trained.items() if name != AGAIN}
    lines = lines_of(settings, starts, ends)
    tests = data.test_inputs, data.test_targets
    paths = loss_paths(model, lines, loss, *tests, settings["points"], at_once=_at_once(settings))
    final: dict[str, Any] = {
        "paths": by_line(paths),
        "accuracy": {n: one.evaluate(accuracy, *tests) for n, one in measured.items()},
        "loss": {n: one.evaluate(loss, *tests) for n, one in measured.items()},
    }
    if "surface" in settings:
        final["surface"] = surface(settings, model, starts, ends, tests)
        final["apart"] = [
            apart(model, *three) for three in zip(starts, ends["adam"], ends["adlala"], strict=True)
        ]
    log.finish(**final)


def apart(model: nn.Module, start: Any, one: Any, two: Any) -> float:
    """How far two solutions are from each other, over the way from the start to the first.

    Example:
        >>> states = [{"weight": torch.full((1, 1), value)} for value in (1.0, 3.0, 4.0)]
        >>> apart(nn.Linear(1, 1, bias=False), *states)
        0.5
    """
    return relative_distance(model, one, two) / relative_distance(model, one, start)


def _at_once(settings: kit.Settings) -> int:
    """Networks that are evaluated at once: fewer of the large ones."""
    return 4 if max(settings["widths"]) > 200 else 16


def lines_of(
    settings: kit.Settings, starts: Sequence[Any], ends: Mapping[str, Sequence[Any]]
) -> dict[str, Line]:
    """The lines of every run, named ``line/run``."""
    found = {}
    for run_, start in enumerate(starts):
        for name, solutions in ends.items():
            if name == AGAIN:
                continue
            end = solutions[run_]
            if settings["lines"] == "layers":
                found[f"all/{run_}"] = Line(start, end)
                for layer in range(len(settings["widths"]) + 1):
                    found[f"layer {layer + 1}/{run_}"] = Line(start, end, f"{2 * layer}.*")
            elif settings["lines"] == "starts":
                other = starts[(run_ + 1) % len(starts)]
                found[f"start to end/{run_}"] = Line(start, end)
                found[f"other start to end/{run_}"] = Line(other, end)
                found[f"start to other start/{run_}"] = Line(start, other)
            else:
                found[f"{name}/{run_}"] = Line(start, end)
    return found


def surface(
    settings: kit.Settings,
    model: nn.Module,
    starts: Sequence[Any],
    ends: Mapping[str, Sequence[Any]],
    tests: tuple[Tensor, Tensor],
) -> dict[str, Any]:
    """Test losses on the planes of figure 3.5, as lines over α for each β: [runs, β, α]."""
    first, second = "adam", AGAIN
    size = settings["surface"]
    lines = {}
    for run_, start in enumerate(starts):
        one, two = ends[first][run_], ends[second][run_]
        for b in range(size):
            beta = b / (size - 1)
            mixed = {name: beta * one[name] + (1 - beta) * two[name] for name in one}
            lines[f"{run_}/{b}"] = Line(start, mixed)
    paths = loss_paths(model, lines, loss, *tests, size, at_once=16)
    heights = torch.stack([path.losses for path in paths.values()]).view(len(starts), size, size)
    shapes = [path.shape for path in paths.values()]
    rising = [
        sum(shape == "barrier" for shape in shapes[r * size : (r + 1) * size]) / size
        for r in range(len(starts))
    ]
    return {"first": first, "second": second, "heights": heights[0].tolist(), "rising": rising}


EXPERIMENT = kit.Experiment(
    name=NAME,
    title="the loss along lines between first and last weights, on MNIST and on spirals",
    phrase="the loss along lines of weights",
    source="thesis figures 3.3, 3.4, 3.5, 6.1A and 6.17",
    claimed="""on easy data the loss falls along the line from start to end, on hard data there is a
        barrier, higher for AdLaLa; in deep networks early layers have barriers""",
    ours="""networks, steps and epochs of figures 3.3 and 6.17, two turns in figures 6.1A and 6.17,
        AdLaLa's settings, and Adam's h: the text does not state them""",
    settings_stated="""
        networks of figure 3.3 | not stated | 100 nodes (MNIST), 20 nodes (spirals)
        epochs of figure 6.17 | not stated | 100, and 20 for wide networks
        turns of figures 6.1A and 6.17 | not stated | 2
        lines on test data | all | 2,000 images, 1,000 to 10,000 points
        runs | 1 a picture | {runs}
    """,
    scales=SCALES,
    jobs=jobs,
    run=run,
    figures={
        **{
            name: partial(path_findings.part, name=name) for name in ("methods", "starts", "layers")
        },
        "surfaces": path_findings.surfaces,
    },
    table=path_findings.table,
    claims=[*path_findings.METHODS, *path_findings.STARTS, *path_findings.DEEP],
    data=("mnist",),
    note="""Ours, because the text does not state them: networks and steps of figure 3.3 (100 nodes
        and 3 epochs on MNIST, 20 nodes and 20,000 steps on one turn and on trigonometric data),
        AdLaLa's settings on both, a = 6, h of Adam in figures 3.3 to 3.5, two turns in figures 6.1A
        and 6.17, 3 epochs on MNIST and 300 on the two-turn spiral in figure 6.1A, 100 epochs (20
        for wide networks) in figure 6.17. MNIST losses are of 2,000 test images, those of wide
        networks of 1,000 test points. Surfaces are of two solutions of Adam, which start from the
        same weights and have other batches""",
    times={"smoke": "8 s", "laptop": "5 min", "full": "20 min"},
)
