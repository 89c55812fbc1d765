"""What the experiments of chapter 3 have in common: data, one hidden layer, methods, training.

All have a perceptron with one hidden layer of ReLU nodes and binary cross entropy. The spirals are
(3.32) with a = 2, p = 0.5 and c = 0.02 unless said otherwise. Partitioned methods have the hidden
layer in their first part and the output layer in the second. Every run draws its own data, weights,
batches and noise. Runs of the same seed share data, first weights and batches.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.optim.optimizer import Optimizer

from colangevin.ensemble import Ensemble
from colangevin.lab import kit
from colangevin.lab.data import Spiral, Trigonometric
from colangevin.lab.experiments.partitioned.adam import AdamEnsemble
from colangevin.lab.experiments.spirals import spiral
from colangevin.lab.experiments.spirals.spiral import Points, accuracy, loss, measure
from colangevin.lab.models import mlp
from colangevin.optimizers import DHSGD, LOL, SGLD, AdLaLa, Langevin, partition

__all__ = ["Points", "accuracy", "loss", "measure"]

Observe: TypeAlias = Callable[[Ensemble], Mapping[str, Any] | None]

TWO_TURNS = {"turns": 2.0}
FOUR_TURNS = {"turns": 4.0}
ACCURACY = kit.Quantity(
    "test_accuracy", "test accuracy, %", 1, factor=100.0, digits=1, chance=kit.COIN
)
LOSS = kit.Quantity("test_loss", "test loss", digits=3)
LATE_ACCURACY = replace(ACCURACY, label="late test accuracy, %", late=True)
LATE_LOSS = replace(LOSS, label="late test loss", late=True)
"""For experiments with few runs: one measurement after the last step swings by several per cent."""
LATE = "Late is the mean of each run over the last tenth of its steps"
MEASURED = ("train_loss", "train_accuracy", "test_loss", "test_accuracy")
STREAM = 31
"""Tells the data of chapter 3 apart from those of other experiments."""


def data_of(settings: kit.Settings) -> Spiral | Trigonometric:
    """Where the points lie.

    Example:
        >>> data_of({"data": {"turns": 4.0}})
        Spiral(turns=4.0, scale=2.0, power=0.5, noise=0.02)
        >>> data_of({"data": {"scale": 3.0, "frequency": 2.0}}).frequency
        2.0
    """
    given = dict(settings["data"])
    return Trigonometric(**given) if "frequency" in given else Spiral(**given)


def draw_points(settings: kit.Settings, seeds: Sequence[int]) -> Points:
    """The data of every run."""
    return spiral.draw_points(settings, seeds, data_of(settings), STREAM)


def network(settings: kit.Settings) -> nn.Sequential:
    """A network with torch's first weights, or Gaussian ones of a deviation; torch's biases.

    With ``zeros`` all weights and biases are 0 at first.

    Example:
        >>> network({"hidden": 5, "weights": 0.01})[0].weight.shape
        torch.Size([5, 2])
    """
    model = mlp(2, [settings["hidden"]], 1)
    deviation = settings.get("weights")
    if deviation is not None:
        for parameter in model.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=deviation)
    if settings.get("zeros"):
        for parameter in model.parameters():
            nn.init.zeros_(parameter)
    return model


def optimizer(model: nn.Module, method: Mapping[str, Any]) -> Optimizer:
    """The optimizer of a method with its settings, in the thesis's symbols.

    Args:
        model: a network.
        method: ``kind`` and ``h``, and what the kind needs: ``sigma`` (σ, or σ_A), ``tau``
            (τ₁), ``tau2``, ``gamma`` (γ₁ of LOL, γ₂ of AdLaLa), ``epsilon``, ``equation``, ``xi``
            (the first ξ) and ``separate_biases`` of AdLaLa, ``momentum``, and ``parts``: the
            usual partition, "output" if not given.

    Example:
        >>> model = network({"hidden": 5})
        >>> type(optimizer(model, {"kind": "lol", "h": 0.1, "gamma": 0.01, "tau": 1e-3})).__name__
        'LOL'
    """
    kind, h = method["kind"], method["h"]
    if kind == "sgd":
        return torch.optim.SGD(model.parameters(), lr=h, momentum=method.get("momentum", 0.0))
    if kind == "sgld":
        return SGLD(model.parameters(), h, noise=method["sigma"])
    if kind == "langevin":
        return Langevin(model.parameters(), h, method["gamma"], method["tau"])
    parts = partition(model, by=method.get("parts", "output"))
    if kind == "lol":
        return LOL(parts, h, method["gamma"], method["tau"])
    if kind == "dhsgd":
        return DHSGD(parts, h)
    if kind == "adlala":
        return AdLaLa(
            parts,
            h,
            coupling=method["epsilon"],
            driving_noise=method["sigma"],
            temperature=method["tau"],
            friction=method["gamma"],
            langevin_temperature=method.get("tau2"),
            first_friction=method.get("xi", 0.0),
            separate_biases=method.get("separate_biases", False),
            equation=method.get("equation", "2.58"),
        )
    raise ValueError(f"unknown kind of method {kind!r}")


def make(settings: kit.Settings, seeds: Sequence[int], factory: Any = None) -> Ensemble:
    """The ensemble of a job.

    Args:
        settings: of the job; ``method`` among them.
        seeds: one per member.
        factory: makes the first networks, in the place of ``network``.
    """
    method = settings["method"]
    begin = factory or (lambda: network(settings))
    if method["kind"] == "adam":
        return AdamEnsemble(begin, seeds, lr=method["h"])
    return Ensemble(begin, seeds, method=lambda model: optimizer(model, method))


def epochs_of(settings: kit.Settings, steps: int | None = None) -> int:
    """How many epochs make so many steps, at least 1.

    Example:
        >>> epochs_of({"steps": 50_000, "train_points": 1_000, "batch_size": 20})
        1000
    """
    count = settings["steps"] if steps is None else steps
    return max(1, round(count * settings["batch_size"] / settings["train_points"]))


def train(
    ensemble: Ensemble,
    settings: kit.Settings,
    points: Points,
    log: kit.Log,
    observe: Observe = lambda ensemble: None,
    *,
    kept: list[Any] | None = None,
    until: int | None = None,
) -> list[Any] | None:
    """Train, measure now and then, and keep what ``observe`` returns after an epoch.

    Args:
        ensemble: fresh; it goes on from the checkpoint of the log if there is one.
        settings: ``steps``, ``batch_size`` and ``measurements``.
        points: the data.
        log: of the job.
        observe: called after every epoch, and before the first.
        kept: what was kept in an earlier stage.
        until: epochs to make; all steps if not given.

    Returns:
        What was kept, in order; None if the user wanted an end.
    """
    epochs = epochs_of(settings) if until is None else until
    spacing = max(1, epochs // settings.get("measurements", 50))
    saved = log.load()
    found = list(kept or [])
    if saved is not None:
        ensemble.load_state_dict(saved["ensemble"])
        found = list(saved["kept"])
    else:
        note(ensemble, points, log, settings)
        _keep(observe(ensemble), ensemble, found)
    data = points.train_inputs, points.train_labels
    size = settings["batch_size"]
    while ensemble.epochs < epochs and ensemble.active:
        ensemble.epoch(loss, *data, batch_size=size, per_member=True)
        if ensemble.active and (ensemble.epochs % spacing == 0 or ensemble.epochs == epochs):
            note(ensemble, points, log, settings)
        if ensemble.active:
            _keep(observe(ensemble), ensemble, found)
        done = ensemble.epochs / epochs
        if not log.advance(done, lambda: {"ensemble": ensemble.state_dict(), "kept": found}):
            return None
    return found


def _keep(seen: Mapping[str, Any] | None, ensemble: Ensemble, found: list[Any]) -> None:
    if seen is not None:
        found.append({"epoch": ensemble.epochs, **seen})


def note(ensemble: Ensemble, points: Points, log: kit.Log, settings: kit.Settings) -> None:
    """Add a row of losses and accuracies to the history, with the number of steps."""
    measured = measure(ensemble, points)
    log.append(
        step=ensemble.epochs * settings["train_points"] // settings["batch_size"],
        **{name: kit.ensembles.everyone(ensemble, values) for name, values in measured.items()},
    )


def trained(log: kit.Log, observe: Observe = lambda ensemble: None) -> tuple[Ensemble, Any] | None:
    """Train the ensemble of a job; return it with what was kept, or None at the user's wish."""
    settings = log.job.settings
    seeds = kit.seeds_of(settings)
    ensemble = make(settings, seeds)
    kept = train(ensemble, settings, draw_points(settings, seeds), log, observe)
    return None if kept is None else (ensemble, kept)


def run(job: kit.Job, log: kit.Log) -> None:
    """Train all runs of a job: the ``run`` of an experiment that needs nothing else."""
    ready = trained(log)
    if ready is not None:
        log.finish(removed=kit.ensembles.removals(ready[0]))


def probabilities(ensemble: Ensemble, member: int, extent: Any, grid: int) -> Tensor:
    """The probability of class 1 of one member on a grid, as bytes [rows, columns].

    Args:
        ensemble: trained.
        member: its place among the members that are left.
        extent: (left, right, bottom, top).
        grid: points per side.
    """
    left, right, bottom, top = extent
    rows, columns = torch.linspace(bottom, top, grid), torch.linspace(left, right, grid)
    y, x = torch.meshgrid(rows, columns, indexing="ij")
    inputs = torch.stack([x.reshape(-1), y.reshape(-1)], dim=1)
    with torch.no_grad():
        model = ensemble.member(ensemble.active[member]).eval()
        found = torch.cat([model(part) for part in inputs.split(2_000)])
    return (255 * found.sigmoid()).round().to(torch.uint8).view(grid, grid)


def extent_of(settings: kit.Settings) -> tuple[float, float, float, float]:
    """The part of the plane in which the data lie.

    Example:
        >>> extent_of({"data": {"turns": 4.0}})
        (-2.2, 2.2, -2.2, 2.2)
    """
    data = data_of(settings)
    if isinstance(data, Trigonometric):
        return -0.1 * data.scale, 1.1 * data.scale, -1.5, 1.5
    half = 1.1 * data.scale
    return -half, half, -half, half
