"""Training for many epochs: metrics, progress, checkpoints."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from torch import Tensor

from colangevin import checks
from colangevin.ensemble.gradients import Loss
from colangevin.ensemble.scheduling import advance, listed
from colangevin.ensemble.sources import Points

if TYPE_CHECKING:
    from colangevin.ensemble.ensemble import Ensemble

Metric: TypeAlias = "Callable[[Ensemble], Tensor]"
LOSS = "loss"


@dataclass
class History:
    """Metrics over time; ``history["loss"]`` is [times, seeds], NaN for removed members."""

    epochs: list[int] = field(default_factory=list)
    values: dict[str, list[Tensor]] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Tensor:
        return torch.stack(self.values[name])

    def append(self, epoch: int, row: Mapping[str, Tensor]) -> None:
        """Add what was measured after an epoch."""
        self.epochs.append(epoch)
        for name, values in row.items():
            self.values.setdefault(name, []).append(values.double().cpu())


def fit(
    ensemble: Ensemble,
    loss: Loss,
    inputs: Points,
    targets: Tensor | None = None,
    *,
    epochs: int,
    batch_size: int | None = None,
    per_member: bool = False,
    metrics: Mapping[str, Metric] | None = None,
    every: int = 1,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: bool | Callable[[int], None] = False,
    schedulers: Any = None,
) -> History:
    """Train an ensemble until it has seen the data ``epochs`` times.

    Args:
        ensemble: the members.
        loss: a function of one member's outputs and targets that returns a number.
        inputs: the points [points, ...] of all members, or [members, points, ...]; a dataset;
            or a loader, whose batches all members see.
        targets: of tensors; datasets and loaders bring them.
        epochs: epochs in all, those that the ensemble has made already included.
        batch_size: points in a batch; None with a loader.
        per_member: every member has its own data.
        metrics: functions of the ensemble that return one number per member that is left.
        every: epochs between two measurements and checkpoints.
        checkpoint: a file; if it exists the training goes on from there, with the options of
            the ensemble that wrote it.
        progress: show a bar (needs rich), or call this with the epochs done.
        schedulers: one or several of ``ensemble.optimizer``, stepped after every epoch; they are
            saved and loaded with the checkpoint.

    Returns:
        The training loss, averaged over the epochs since the last measurement, and the metrics.

    Example:
        >>> from torch import nn
        >>> from colangevin import Ensemble
        >>> ensemble = Ensemble(lambda: nn.Linear(1, 1), range(2), lr=0.1)
        >>> points = torch.linspace(-1, 1, 10).unsqueeze(1)
        >>> slope = {"slope": lambda e: torch.stack([e.member(i).weight[0, 0] for i in range(2)])}
        >>> history = ensemble.fit(
        ...     nn.functional.mse_loss, points, 3 * points, epochs=40, batch_size=5, every=20,
        ...     metrics=slope,
        ... )
        >>> history.epochs, bool((history["slope"][-1] - 3).abs().max() < 0.1)
        ([20, 40], True)
    """
    checks.count("epochs", epochs)
    checks.count("every", every)
    history, steered = History(), listed(schedulers)
    sizes: dict[str, Any] = {"batch_size": batch_size, "per_member": per_member}
    path = None if checkpoint is None else Path(checkpoint)
    if path is not None and path.exists():
        history = load(ensemble, path, sizes, steered)
    with _bar(progress, epochs) as report:
        since: list[Tensor] = []
        while ensemble.epochs < epochs and ensemble.active:
            since.append(ensemble.epoch(loss, inputs, targets, **sizes))
            advance(steered, float(since[-1].nanmean()))
            report(ensemble.epochs)
            if ensemble.epochs % every and ensemble.epochs < epochs and ensemble.active:
                continue
            row = {LOSS: torch.stack(since).mean(dim=0)}
            for name, metric in (metrics or {}).items():
                row[name] = widen(ensemble, metric(ensemble))
            history.append(ensemble.epochs, row)
            since = []
            if path is not None:
                save(ensemble, history, path, sizes, steered)
    return history


def widen(ensemble: Ensemble, values: Tensor) -> Tensor:
    """From numbers of the members that are left to all, with NaN for the others."""
    wide = torch.full((len(ensemble.seeds),), math.nan, dtype=torch.float64)
    wide[ensemble.active] = values.detach().double().cpu()
    return wide


def save(
    ensemble: Ensemble,
    history: History,
    path: Path,
    sizes: Mapping[str, Any],
    schedulers: Sequence[Any] = (),
) -> None:
    """Write a checkpoint in such a way that there is always a whole one."""
    temporary = path.with_name(path.name + ".part")
    saved = {
        "ensemble": ensemble.state_dict(),
        "sizes": dict(sizes),
        "epochs": history.epochs,
        "values": {name: torch.stack(values) for name, values in history.values.items()},
        "schedulers": [scheduler.state_dict() for scheduler in schedulers],
    }
    torch.save(saved, temporary)
    os.replace(temporary, path)


def load(
    ensemble: Ensemble, path: Path, sizes: Mapping[str, Any], schedulers: Sequence[Any] = ()
) -> History:
    """Read a checkpoint into an ensemble and return its history.

    Raises:
        ValueError: if it is of other seeds, parameters, constraints, batches or schedulers.
    """
    try:
        saved: dict[str, Any] = torch.load(path, weights_only=True)
    except Exception as error:  # the readers of torch raise whatever they stumble over
        raise ValueError(f"{path} is no checkpoint, or damaged: {str(error)[:100]}") from None
    keys = {"ensemble", "sizes", "epochs", "values"}
    if not isinstance(saved, dict) or not keys <= saved.keys():
        raise ValueError(f"{path} is no checkpoint of an ensemble")
    for name, value in sizes.items():
        if saved["sizes"][name] != value:
            raise ValueError(f"{path} was made with {name}={saved['sizes'][name]}, got {value}")
    steered = saved.get("schedulers", [])
    if len(steered) != len(schedulers):
        raise ValueError(f"{path} has {len(steered)} schedulers, got {len(schedulers)}")
    ensemble.load_state_dict(saved["ensemble"])
    for scheduler, state in zip(schedulers, steered, strict=True):
        scheduler.load_state_dict(state)
    values = {name: list(tensor) for name, tensor in saved["values"].items()}
    return History(saved["epochs"], values)


@contextmanager
def _bar(progress: bool | Callable[[int], None], epochs: int) -> Iterator[Callable[[int], None]]:
    if callable(progress):
        yield progress
    elif not progress:
        yield lambda done: None
    else:
        from rich.progress import Progress

        with Progress() as bar:
            task = bar.add_task("epochs", total=epochs)
            yield lambda done: bar.update(task, completed=done)
