"""What the experiments on the two-turn spiral (4.59) have in common.

The paper's settings: a 500-node network with one hidden layer, 100 training and 2,000 test
points, batches of 2 %, h = 0.05, circles of radius 1 on the input and 5 on the output weights.
Every run draws its own data, weights, batches and noise.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from colangevin.constraints import Circle, Sphere
from colangevin.ensemble import Ensemble
from colangevin.lab import kit
from colangevin.lab.data import TWO_TURNS, Spiral, Trigonometric
from colangevin.lab.models import mlp

PAPER: dict[str, Any] = {
    "runs": 100,
    "epochs": 10_000,
    "hidden": 500,
    "train_points": 100,
    "test_points": 2_000,
    "batch_size": 2,
    "lr": 0.05,
}
SCALES: dict[str, dict[str, Any]] = {
    "smoke": {**PAPER, "runs": 2, "epochs": 4, "hidden": 20, "test_points": 100},
    "laptop": {**PAPER, "runs": 10, "epochs": 2_000},
    "full": PAPER,
}
RADII = (1.0, 5.0)
METHODS: dict[str, dict[str, Any]] = {
    "sgd": {"label": "SGD"},
    "sgd-wd": {"label": "SGD + WD", "weight_decay": 1e-4},
    "c-sgd": {"label": "C-SGD", "radii": RADII},
    "sgld": {"label": "SGLD", "temperature": 5e-5},
    "c-sgld": {"label": "C-SGLD", "radii": RADII, "temperature": 5e-5},
}
"""The paper's five methods: what differs between them."""

ACCURACY = kit.Quantity("test_accuracy", "test accuracy, %", sign=1, factor=100.0)
LOSS = kit.Quantity("test_loss", "test loss", digits=3)
HISTORY_POINTS = 50


class Points(NamedTuple):
    """Training and test points of every run: [runs, points, 2] and [runs, points]."""

    train_inputs: Tensor
    train_labels: Tensor
    test_inputs: Tensor
    test_labels: Tensor


def draw_points(
    settings: kit.Settings,
    seeds: Sequence[int],
    spiral: Spiral | Trigonometric = TWO_TURNS,
    stream: int = 97,
) -> Points:
    """The data of every run.

    Args:
        settings: ``train_points`` and ``test_points``; with ``draws``, there are only as many
            sets of data, which the runs use in turn.
        seeds: one per run.
        spiral: where the points lie.
        stream: tells apart what one seed draws for different experiments.

    Example:
        >>> draw_points(SCALES["smoke"], [0, 1]).test_inputs.shape
        torch.Size([2, 100, 2])
    """
    parts: list[list[Tensor]] = [[], [], [], []]
    for seed in itertools.islice(itertools.cycle(seeds[: settings.get("draws")]), len(seeds)):
        generator = torch.Generator().manual_seed((seed * 2654435761 + stream) % 2**32)
        train = spiral.sample(settings["train_points"], generator=generator)
        test = spiral.sample(settings["test_points"], generator=generator)
        for part, tensor in zip(parts, (*train, *test), strict=True):
            part.append(tensor.float())
    return Points(*[torch.stack(part) for part in parts])


def loss(outputs: Tensor, labels: Tensor) -> Tensor:
    """Binary cross entropy of logits [points, 1]."""
    return functional.binary_cross_entropy_with_logits(outputs[:, 0], labels)


def accuracy(outputs: Tensor, labels: Tensor) -> Tensor:
    """Share of points on the right side."""
    return ((outputs[:, 0] > 0) == (labels > 0.5)).float().mean()


def make(settings: kit.Settings, seeds: Sequence[int], radii: Any, temperature: Any) -> Ensemble:
    """An ensemble of the paper's network.

    Args:
        settings: of the job; with ``spheres``, radii that bound the norm of each node's input
            weights, and of the output weights.
        seeds: one per member.
        radii: of the input and output weights, numbers or one per member; None for no circles.
        temperature: τ, or one per member.
    """
    rules: dict[str, Any] = {}
    if "spheres" in settings:
        rules = {f"{n}.weight": Sphere(r) for n, r in zip((0, 2), settings["spheres"], strict=True)}
    if radii is not None:
        for name, radius in zip(("0.weight", "2.weight"), radii, strict=True):
            several = isinstance(radius, (list, tuple))
            rules[name] = [Circle(r) for r in radius] if several else Circle(radius)
    return Ensemble(
        lambda: mlp(2, [settings["hidden"]], 1),
        seeds,
        rules,
        lr=settings["lr"],
        momentum=0.0,
        temperature=temperature,
        weight_decay=settings.get("weight_decay", 0.0),
    )


def train(ensemble: Ensemble, settings: kit.Settings, points: Points, log: kit.Log) -> bool:
    """Train and measure as the paper does; False if the user wanted an end."""
    training = kit.ensembles.Training(
        loss=loss,
        inputs=points.train_inputs,
        targets=points.train_labels,
        batch_size=settings["batch_size"],
        epochs=settings["epochs"],
        points=HISTORY_POINTS,
        measure=lambda members: measure(members, points),
        per_member=True,
    )
    return kit.ensembles.train(ensemble, training, log)


def measure(ensemble: Ensemble, points: Points) -> dict[str, Tensor]:
    """Losses and accuracies on training and test points."""
    train = points.train_inputs, points.train_labels
    test = points.test_inputs, points.test_labels
    return {
        "train_loss": ensemble.evaluate(loss, *train, per_member=True),
        "train_accuracy": ensemble.evaluate(accuracy, *train, per_member=True),
        "test_loss": ensemble.evaluate(loss, *test, per_member=True),
        "test_accuracy": ensemble.evaluate(accuracy, *test, per_member=True),
    }


def networks(ensemble: Ensemble) -> list[nn.Module]:
    """The members that are left, as modules."""
    return [ensemble.member(index).cpu() for index in ensemble.active]


def trained(log: kit.Log, radii: Any, temperature: Any) -> tuple[Ensemble, Points] | None:
    """Train a job's ensemble, or take it from the classifiers' run of the same settings.

    Returns:
        The ensemble and its data; None if the user wanted an end.
    """
    settings = log.job.settings
    seeds = kit.seeds_of(settings)
    points = draw_points(settings, seeds)
    ensemble = make(settings, seeds, radii, temperature)
    if load_weights(ensemble, settings, log.directory.parent / "spiral-classifiers", log.job.name):
        log.load()  # what was examined, and the time that it took
        return ensemble, points
    return (ensemble, points) if train(ensemble, settings, points, log) else None


def examined(
    ensemble: Ensemble, log: kit.Log, examine: Callable[[nn.Module], list[float]]
) -> list[list[float]] | None:
    """What a function finds in every network that is left, saved now and then.

    Returns:
        None if the user wanted an end.
    """
    found = list((log.loaded or {}).get("examined", []))
    for index in ensemble.active[len(found) :]:
        found.append(examine(ensemble.member(index).cpu()))
        done = len(found) / len(ensemble)
        if not log.advance(done, lambda: {"ensemble": ensemble.state_dict(), "examined": found}):
            return None
    return found


def save_weights(ensemble: Ensemble, settings: kit.Settings, directory: Path, job: str) -> None:
    """Keep the trained networks for experiments that look at them."""
    content = {"settings": _plain(settings), "ensemble": ensemble.state_dict()}
    with kit.replacing(directory / f"{job}.weights.pt") as file:
        torch.save(content, file)


def load_weights(ensemble: Ensemble, settings: kit.Settings, directory: Path, job: str) -> bool:
    """Take over networks that were trained with the same settings; False if there are none.

    Raises:
        RecordError: if their file is damaged.
    """
    path = directory / f"{job}.weights.pt"
    if not path.exists():
        return False
    content = kit.read_tensors(path, ("settings", "ensemble"))
    if content["settings"] != _plain(settings):
        return False
    ensemble.load_state_dict(content["ensemble"])
    return True


def _plain(settings: kit.Settings) -> dict[str, Any]:
    return {key: repr(value) for key, value in settings.items() if key != "scale"}
