"""Training for many epochs: metrics, progress, checkpoints."""

from __future__ import annotations

import math
import os
import warnings
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

Metric: TypeAlias = "Callable[[Ensemble], Tensor | Sequence[float] | float]"
LOSS = "loss"


@dataclass(repr=False)
class History:
    """Metrics over time; ``history["loss"]`` is [times, seeds], NaN for removed members.

    Example:
        >>> History([10], {"loss": [torch.tensor([0.5, 1.5])]})
        History(2 seeds, 1 time up to epoch 10; last means: loss 1)
    """

    epochs: list[int] = field(default_factory=list)
    values: dict[str, list[Tensor]] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Tensor:
        return torch.stack(self.values[name])

    def __repr__(self) -> str:
        if not self.epochs:
            return "History(nothing measured)"
        times, seeds = len(self.epochs), len(next(iter(self.values.values()))[-1])
        means = [f"{name} {float(rows[-1].nanmean()):.4g}" for name, rows in self.values.items()]
        return (
            f"History({seeds} seed{'s' * (seeds > 1)}, {times} time{'s' * (times > 1)} up to epoch "
            f"{self.epochs[-1]}; last means: {', '.join(means)})"
        )

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
        epochs: epochs in all, those that the ensemble has made already included: after
            ``epochs=2``, ``epochs=4`` trains 2 more, and ``epochs=2`` nothing, with a warning.
        batch_size: points in a batch; None with a loader.
        per_member: every member has its own data.
        metrics: functions of the ensemble that return one number per member that is left, or
            one number for all. The name "loss" is reserved for the training loss.
        every: epochs between two measurements and checkpoints.
        checkpoint: a file; if it exists the training goes on from there, with the options of
            the ensemble that wrote it.
        progress: show a bar (needs rich), or call this with the epochs done.
        schedulers: one or several of ``ensemble.optimizer``, stepped after every epoch; they are
            saved and loaded with the checkpoint.

    Returns:
        The training loss, averaged over the epochs since the last measurement, and the metrics.

    Raises:
        ValueError, TypeError: naming the argument.

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
    _check_metrics(metrics)
    history, steered = History(), listed(schedulers)
    sizes: dict[str, Any] = {"batch_size": batch_size, "per_member": per_member}
    path = None if checkpoint is None else Path(checkpoint)
    if path is not None and path.exists():
        history = load(ensemble, path, sizes, steered)
    _warn_if_idle(ensemble, epochs)
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
                row[name] = widen(ensemble, metric(ensemble), name)
            history.append(ensemble.epochs, row)
            since = []
            if path is not None:
                save(ensemble, history, path, sizes, steered)
    return history


def _check_metrics(metrics: Any) -> None:
    if metrics is None:
        return
    if not isinstance(metrics, Mapping):
        raise TypeError(f"metrics must be functions by name, got {type(metrics).__name__}")
    for name, metric in metrics.items():
        if name == LOSS:
            raise ValueError(
                f"metrics: the name {LOSS!r} is reserved for the training loss; call it "
                "'test loss', for example"
            )
        if not callable(metric):
            raise TypeError(f"metrics[{name!r}] must be a function of the ensemble, got {metric!r}")


def _warn_if_idle(ensemble: Ensemble, epochs: int) -> None:
    done, seeds = ensemble.epochs, len(ensemble.seeds)
    if not ensemble.active:
        said = f"all {seeds} members were removed because they diverged: nothing is left to train"
    elif done >= epochs:
        said = (
            f"already at epoch {done}, nothing is trained: epochs is a total; pass "
            f"epochs={done + epochs} to train {epochs} more"
        )
    else:
        return
    warnings.warn(said, UserWarning, stacklevel=4)  # the caller of Ensemble.fit


def widen(ensemble: Ensemble, values: Any, name: str) -> Tensor:
    """From a metric's numbers of the members that are left to all, with NaN for the others.

    Raises:
        ValueError, TypeError: if these are not one number per member, or one for all.
    """
    try:
        found = torch.as_tensor(values, dtype=torch.float64).detach().cpu()
    except (TypeError, ValueError, RuntimeError):
        raise TypeError(
            f"metrics[{name!r}] must return numbers, got {type(values).__name__}"
        ) from None
    if found.dim() and found.shape != (len(ensemble),):
        raise ValueError(
            f"metrics[{name!r}] must return one number per member, {len(ensemble)}, or one for "
            f"all, got the shape {tuple(found.shape)}"
        )
    wide = torch.full((len(ensemble.seeds),), math.nan, dtype=torch.float64)
    wide[ensemble.active] = found
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
