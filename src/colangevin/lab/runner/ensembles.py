"""Training an ensemble as a job: measured, saved now and then, and resumed exactly."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor

from colangevin.ensemble import Ensemble
from colangevin.lab.runner.job_log import Log
from colangevin.lab.runner.values import plain

Measure: TypeAlias = Callable[[Ensemble], Mapping[str, Tensor]]


@dataclass(frozen=True)
class Training:
    """What an ensemble is trained on, and when it is measured.

    Attributes:
        loss: a function of one member's outputs and targets.
        inputs: the points, of all members or of each.
        targets: likewise.
        batch_size: points in a batch.
        epochs: epochs in all.
        points: measurements to make, about evenly spaced.
        measure: returns numbers by name, one per member that is left.
        per_member: every member has its own data.
    """

    loss: Callable[[Any, Any], Tensor]
    inputs: Tensor
    targets: Tensor
    batch_size: int
    epochs: int
    points: int
    measure: Measure
    per_member: bool = False


def train(ensemble: Ensemble, training: Training, log: Log) -> bool:
    """Train from where the log's checkpoint is, or from the start.

    Returns:
        False if the user wanted an end: everything is saved then.
    """
    ensemble.to(log.device)
    saved = log.load()
    if saved is not None:
        ensemble.load_state_dict(saved["ensemble"])
    else:
        _note(ensemble, training, log)
    spacing = max(1, training.epochs // training.points)
    while ensemble.epochs < training.epochs and ensemble.active:
        ensemble.epoch(
            training.loss,
            training.inputs,
            training.targets,
            batch_size=training.batch_size,
            per_member=training.per_member,
        )
        due = ensemble.epochs % spacing == 0 or ensemble.epochs == training.epochs
        if due and ensemble.active:
            _note(ensemble, training, log)
        done = ensemble.epochs / training.epochs
        if not log.advance(done, lambda: {"ensemble": ensemble.state_dict()}):
            return False
    if not ensemble.active:
        _note_nobody(ensemble, log)
    return True


def _note(ensemble: Ensemble, training: Training, log: Log) -> None:
    measured = training.measure(ensemble)
    log.append(
        epoch=ensemble.epochs,
        **{name: everyone(ensemble, values) for name, values in measured.items()},
    )


def _note_nobody(ensemble: Ensemble, log: Log) -> None:
    """A last row without numbers, where every member has diverged."""
    nobody = [None] * len(ensemble.seeds)
    names = [name for name in log.record.history if name != "epoch"]
    log.append(epoch=ensemble.epochs, **dict.fromkeys(names, nobody))


def everyone(ensemble: Ensemble, values: Tensor) -> list[float | None]:
    """Numbers of the members that are left as a list of all, with None for the others.

    Example:
        >>> ensemble = Ensemble(lambda: torch.nn.Linear(1, 1), range(2))
        >>> everyone(ensemble, torch.tensor([0.5, 1.5]))
        [0.5, 1.5]
    """
    found: list[float | None] = [None] * len(ensemble.seeds)
    for index, value in zip(ensemble.active, values.tolist(), strict=True):
        found[index] = plain(value)
    return found


def violations(ensemble: Ensemble) -> Tensor:
    """The largest violation of a constraint in each member that is left.

    Example:
        >>> violations(Ensemble(lambda: torch.nn.Linear(1, 1), range(2)))
        tensor([0., 0.], dtype=torch.float64)
    """
    groups = [group.members for group in ensemble.violation()]
    return torch.tensor(groups, dtype=torch.float64).amax(dim=0)


def worst_violation(ensemble: Ensemble) -> float | None:
    """The largest violation of all members; None if there are none left.

    Example:
        >>> worst_violation(Ensemble(lambda: torch.nn.Linear(1, 1), range(2)))
        0.0
    """
    return float(violations(ensemble).max()) if ensemble.active else None


def removals(ensemble: Ensemble) -> list[dict[str, int]]:
    """The members that diverged, for a record.

    Example:
        >>> removals(Ensemble(lambda: torch.nn.Linear(1, 1), range(2)))
        []
    """
    return [removal._asdict() for removal in ensemble.removed]
