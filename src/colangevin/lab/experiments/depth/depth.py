"""What the experiments on the four-turn spiral (4.58) have in common.

The paper's settings: multilayer perceptrons with 1 to 8 hidden layers of 100 nodes, 500 training
and 1,000 test points, batches of 5 %, h = 0.1. Orthogonality, hard or soft, is that of the
weights between hidden layers. Every run draws its own data, weights, batches and noise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from colangevin.constraints import Orthogonal
from colangevin.ensemble import Ensemble
from colangevin.lab import kit
from colangevin.lab.data import FOUR_TURNS
from colangevin.lab.experiments.spirals import spiral
from colangevin.lab.experiments.spirals.spiral import Points
from colangevin.lab.models import mlp

PAPER: dict[str, Any] = {
    "runs": 10,
    "hidden": 100,
    "train_points": 500,
    "test_points": 1_000,
    "batch_size": 25,
    "lr": 0.1,
}
TINY: dict[str, Any] = {
    **PAPER,
    "runs": 2,
    "epochs": 3,
    "hidden": 10,
    "train_points": 50,
    "test_points": 50,
}
"""For a smoke test."""

METHODS: dict[str, dict[str, Any]] = {
    "sgd": {"label": "SGD"},
    "sgd-orthogonal": {"label": "SGD, orthogonal init.", "orthogonal_start": True},
    "sgd-penalty": {"label": "SGD, penalty 0.05", "penalty": 0.05},
    "o-cola-od": {"label": "o-CoLA-od", "orthogonal": True},
}
"""Figure 4's four methods: what differs between them."""

HISTORY_POINTS = 50
MEASURED = ("train_loss", "test_loss", "test_accuracy")
LATE = kit.Quantity(
    "test_accuracy", "test accuracy, %", 1, 100.0, digits=1, late=True, chance=kit.COIN
)


def job(experiment: str, method: str, depth: int, settings: kit.Settings) -> kit.Job:
    """The job of one method at one depth.

    Example:
        >>> job("depth-orthogonal", "sgd", 4, {"lr": 0.1, "depths": [2, 4]}).settings
        {'lr': 0.1, 'depth': 4, 'method': 'sgd'}
        >>> job("depth-orthogonal", "sgd", 4, {}).name
        'sgd-4'
    """
    own = {key: value for key, value in settings.items() if key != "depths"}
    return kit.Job(experiment, f"{method}-{depth}", {**own, "depth": depth, "method": method})


def hidden_weights(depth: int) -> list[str]:
    """Names of the weights between hidden layers: all but the first and the last.

    Example:
        >>> hidden_weights(3)
        ['2.weight', '4.weight']
    """
    return [f"{2 * layer}.weight" for layer in range(1, depth)]


@dataclass(frozen=True)
class Penalty:
    """The soft constraint λ Σ ‖WᵀW − I‖² as a function of a network's parameters.

    Attributes:
        strength: λ.
        names: of the weights W.

    Example:
        >>> Penalty(0.5, ["w"])({"w": 2 * torch.eye(3)})
        tensor(13.5000)
    """

    strength: float
    names: Sequence[str]

    def __call__(self, parameters: Mapping[str, Tensor]) -> Tensor:
        """The penalty; its gradient, 4λW(WᵀW − I), costs one product beside the value's."""
        total = torch.zeros(())
        for name in self.names:
            weight = parameters[name]
            fixed = weight.detach()
            excess = fixed.mT @ fixed - torch.eye(fixed.shape[-1])
            slope = 4 * (fixed @ excess)
            linear = (slope * weight).sum()  # has the gradient, and is taken off the value again
            total = total + excess.square().sum() + (linear - linear.detach())
        return self.strength * total


def draw_points(settings: kit.Settings, seeds: Sequence[int]) -> Points:
    """The data of every run.

    Example:
        >>> draw_points(TINY, [0, 1]).train_inputs.shape
        torch.Size([2, 50, 2])
    """
    return spiral.draw_points(settings, seeds, FOUR_TURNS, stream=193)


def network(settings: kit.Settings) -> nn.Module:
    """The network of a job, with torch's initial weights or with orthogonal ones.

    Example:
        >>> made = network({"hidden": 5, "depth": 2, "orthogonal_start": True})
        >>> bool((made[2].weight @ made[2].weight.mT - torch.eye(5)).abs().max() < 1e-5)
        True
    """
    made = mlp(2, [settings["hidden"]] * settings["depth"], 1)
    if settings.get("orthogonal_start"):
        for name in hidden_weights(settings["depth"]):
            nn.init.orthogonal_(made.get_parameter(name))
    return made


def make(settings: kit.Settings, seeds: Sequence[int], lr: float | list[float]) -> Ensemble:
    """The ensemble of a job.

    Args:
        settings: of the job: ``hidden``, ``depth``, and what its method has.
        seeds: one per member.
        lr: the step size h, or one per member.

    Example:
        >>> make({"hidden": 5, "depth": 2, "orthogonal": True}, [0, 1], 0.1)
        Ensemble(2 members, 0 steps)
    """
    names = hidden_weights(settings["depth"])
    # One constraint per layer: the matrices of all members in one layer fit a processor's cache.
    rules = {name: Orthogonal() for name in names} if settings.get("orthogonal") else {}
    strength = settings.get("penalty")
    return Ensemble(
        lambda: network(settings),
        seeds,
        rules,
        penalty=Penalty(strength, tuple(names)) if strength and names else None,
        lr=lr,
        momentum=0.0,
        temperature=settings.get("temperature", 0.0),
    )


def run(job: kit.Job, log: kit.Log) -> None:
    """Train all runs of a job as one ensemble, for all of its step sizes."""
    settings = job.settings
    steps = settings["lr"] if isinstance(settings["lr"], list) else [settings["lr"]]
    runs = kit.seeds_of(settings)
    drawn = draw_points(settings, runs)
    points = Points(*[torch.cat([part] * len(steps)) for part in drawn])
    # Members have seeds of their own; those of the first step size are the runs' seeds.
    seeds = [seed + 500 * index for index in range(len(steps)) for seed in runs]
    ensemble = make(settings, seeds, [lr for lr in steps for _ in runs])
    training = kit.ensembles.Training(
        loss=spiral.loss,
        inputs=points.train_inputs,
        targets=points.train_labels,
        batch_size=settings["batch_size"],
        epochs=settings["epochs"],
        points=HISTORY_POINTS,
        measure=lambda members: measure(members, points),
        per_member=True,
    )
    if not kit.ensembles.train(ensemble, training, log):
        return
    worst = kit.ensembles.worst_violation(ensemble)
    log.finish(violation=worst, removed=kit.ensembles.removals(ensemble))


def measure(ensemble: Ensemble, points: Points) -> dict[str, Tensor]:
    """Training loss, test loss and test accuracy, under the names in ``MEASURED``."""
    train = points.train_inputs, points.train_labels
    test = points.test_inputs, points.test_labels
    values = (
        ensemble.evaluate(spiral.loss, *train, per_member=True),
        ensemble.evaluate(spiral.loss, *test, per_member=True),
        ensemble.evaluate(spiral.accuracy, *test, per_member=True),
    )
    return dict(zip(MEASURED, values, strict=True))
