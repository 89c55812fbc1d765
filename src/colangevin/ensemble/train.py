"""Training for many epochs: metrics, progress, checkpoints, schedulers; evaluation on data."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from torch import Tensor
from torch.func import functional_call, vmap
from torch.optim.lr_scheduler import ReduceLROnPlateau
from torch.optim.optimizer import Optimizer
from torch.utils.data import TensorDataset, default_collate

from colangevin import checks
from colangevin.ensemble.data import Points, is_loader, pair
from colangevin.ensemble.gradients import Loss, evaluating
from colangevin.ensemble.groups import MemberGroup

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

    def summary(self) -> str:
        """A line per metric: mean ± standard deviation over the members at the last time.

        Example:
            >>> print(History([10], {"loss": [torch.tensor([0.5, 1.5, math.nan])]}).summary())
            loss  1 ± 0.707 (2 of 3 seeds)
        """
        width = max(map(len, self.values), default=0)
        lines = []
        for name, rows in self.values.items():
            left = rows[-1][rows[-1].isfinite()]
            count, whole = len(left), len(rows[-1])
            seeds = f"{count}" if count == whole else f"{count} of {whole}"
            spread = f" ± {float(left.std()):.3g}" if count > 1 else ""
            lines.append(f"{name:{width}}  {float(left.mean()):.4g}{spread} ({seeds} seeds)")
        return "\n".join(lines) or "nothing measured"

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
            for scheduler in steered:
                wants_loss = isinstance(scheduler, ReduceLROnPlateau)
                scheduler.step(*([float(since[-1].nanmean())] if wants_loss else []))
            report(ensemble.epochs)
            if ensemble.epochs % every and ensemble.epochs < epochs and ensemble.active:
                continue
            row = {LOSS: torch.stack(since).mean(dim=0)}
            for name, metric in (metrics or {}).items():
                row[name] = widen(ensemble, _checked(ensemble, metric(ensemble), name))
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


def widen(ensemble: Ensemble, values: Tensor) -> Tensor:
    """From values of the members that are left to all seeds, with NaN for the others."""
    kept = values.detach().cpu()
    if len(ensemble) == len(ensemble.seeds):
        return kept
    kind = kept.dtype if kept.is_floating_point() else torch.float64
    wide = torch.full((len(ensemble.seeds), *kept.shape[1:]), math.nan, dtype=kind)
    wide[ensemble.active] = kept.to(kind)
    return wide


def _checked(ensemble: Ensemble, values: Any, name: str) -> Tensor:
    """A metric's numbers, one for each member that is left.

    Raises:
        ValueError, TypeError: if these are not one number per member, or one for all.
    """
    try:
        found = torch.as_tensor(values, dtype=torch.float64)
    except (TypeError, ValueError, RuntimeError):
        raise TypeError(
            f"metrics[{name!r}] must return numbers, got {type(values).__name__}"
        ) from None
    if found.dim() and found.shape != (len(ensemble),):
        raise ValueError(
            f"metrics[{name!r}] must return one number per member, {len(ensemble)}, or one for "
            f"all, got the shape {tuple(found.shape)}"
        )
    return found.detach().expand(len(ensemble)).clone()  # the user may change theirs


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


# --- schedulers -----------------------------------------------------------------------------


class MembersOptimizer(Optimizer):
    """What schedulers get in the place of an optimizer; the ensemble makes the steps.

    A scheduler of torch reads and writes ``param_groups``. Here these are one group per parameter
    group and member, so that every member of a sweep has its own learning rate and schedule.

    Args:
        parts: the ensemble's groups. Their settings become the groups of this optimizer.
    """

    def __init__(self, parts: Sequence[MemberGroup]) -> None:
        self._parts = list(parts)
        super().__init__([torch.zeros(())], {"lr": None, "momentum": None, "temperature": None})
        for part in self._parts:
            part.options = [{**own, "params": []} for own in part.options]
        # Of removed members too: a scheduler has as many groups at the end as in the beginning.
        self.param_groups = [group for part in self._parts for group in part.options]
        self._momentum = [part.momentum for part in self._parts]
        self._seen = [dict(group) for group in self.param_groups]

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Nothing: the ensemble calls this after its step, so that schedulers and hooks know."""

    def follow(self) -> None:
        """Take over what schedulers have written.

        Raises:
            ValueError, TypeError: naming the option; no weight has been changed.
        """
        # Several numbers in the place of one cannot be compared; they are refused below.
        with suppress(RuntimeError, ValueError):
            if self.param_groups == self._seen:
                return
        for part, momentum in zip(self._parts, self._momentum, strict=True):
            part.forget()
            part.check()
            if part.options and part.momentum != momentum:
                raise ValueError("a training cannot go from overdamped to underdamped, or back")
        self._seen = [dict(group) for group in self.param_groups]


def listed(schedulers: Any) -> list[Any]:
    """One scheduler or several as a list.

    Raises:
        TypeError: if one of them cannot be stepped or saved.

    Example:
        >>> listed(None)
        []
    """
    if schedulers is None:
        return []
    found = list(schedulers) if isinstance(schedulers, (list, tuple)) else [schedulers]
    for scheduler in found:
        if not all(callable(getattr(scheduler, name, None)) for name in ("step", "state_dict")):
            raise TypeError(f"schedulers must be schedulers of torch, got {scheduler!r}")
    return found


# --- evaluation -----------------------------------------------------------------------------


@torch.no_grad()
def evaluate(
    ensemble: Ensemble,
    function: Callable[[Any, Any], Tensor],
    inputs: Points,
    targets: Tensor | None,
    per_member: bool,
    batch_size: int | None,
) -> Tensor:
    """A function of outputs and targets for every member left; see ``Ensemble.evaluate``."""
    if batch_size is not None:
        checks.count("batch_size", batch_size)
    dim = 0 if per_member else None
    template = ensemble._template

    def one(tensors: dict[str, Tensor], x: Tensor, y: Tensor | None) -> Tensor:
        return function(functional_call(template, tensors, (x,)), y)

    found, counts = [], []
    for x, y in _chunks(ensemble, inputs, targets, per_member, batch_size):
        x, y = x.to(ensemble.device), None if y is None else y.to(ensemble.device)
        in_dims = (0, dim, None if y is None else dim)
        with evaluating(template), ensemble._gradients.threads(x, len(ensemble), not per_member):
            found.append(vmap(one, in_dims=in_dims)(ensemble._tensors(), x, y))
        counts.append(x.shape[1 if per_member else 0])
    return found[0] if len(found) == 1 else _joined(found, counts)


def _chunks(
    ensemble: Ensemble,
    inputs: Points,
    targets: Tensor | None,
    per_member: bool,
    batch_size: int | None,
) -> Iterator[tuple[Tensor, Tensor | None]]:
    """Some points at a time."""
    if not isinstance(inputs, Tensor):
        loader = is_loader(inputs)
        if targets is not None or per_member:
            raise ValueError("targets and per_member go with a tensor of inputs")
        if not isinstance(inputs, TensorDataset):
            yield from map(pair, inputs if loader else _items(inputs, batch_size))  # type: ignore[arg-type]
            return
        inputs, targets = pair(inputs.tensors)
    if per_member:
        inputs = inputs[ensemble.active]
        targets = None if targets is None else targets[ensemble.active]
    dim = 1 if per_member else 0
    size = max(1, inputs.shape[dim] if batch_size is None else batch_size)
    parts = inputs.split(size, dim)
    answers = [None] * len(parts) if targets is None else targets.split(size, dim)
    yield from zip(parts, answers, strict=True)


def _items(dataset: Any, batch_size: int | None) -> Iterator[Any]:
    size = len(dataset) if batch_size is None else batch_size
    for start in range(0, len(dataset), size):
        indices = range(start, min(start + size, len(dataset)))
        yield default_collate([dataset[i] for i in indices])


def _joined(found: list[Tensor], counts: list[int]) -> Tensor:
    """The mean of numbers, weighted with the points that they are of; values per point in a row.

    Raises:
        ValueError: if the function returns something else.
    """
    if not found:
        raise ValueError("inputs must have at least one point, got none")
    first = found[0]
    if first.dim() == 1 and first.is_floating_point():
        parts = [value.double() * count for value, count in zip(found, counts, strict=True)]
        return (torch.stack(parts).sum(dim=0) / sum(counts)).to(first.dtype)
    per_point = all(v.dim() > 1 and v.shape[1] == n for v, n in zip(found, counts, strict=True))
    if not per_point:
        raise ValueError(
            "with batches, the function must return a mean over the points (a floating-point "
            "number) or one value per point; it returned "
            f"{tuple(first.shape[1:])} of {first.dtype} for {counts[0]} points"
        )
    return torch.cat(found, dim=1)
