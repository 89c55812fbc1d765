"""Several lines at once: the losses of many networks as one vectorised evaluation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from colangevin import checks
from colangevin.diagnostics.paths import LossPath, main, repeatable
from colangevin.diagnostics.states import States, borrowed, checked, mixed, moving, put

Measure: TypeAlias = "Callable[[Any, Any], Tensor | Mapping[str, Tensor]]"


class Line(NamedTuple):
    """From a state dict to another one, of everything or of what a pattern names.

    Attributes:
        start: at α = 0.
        end: at α = 1, where everything that does not move stays.
        only: what moves, as in ``loss_path``.
    """

    start: States
    end: States
    only: object = None


def loss_paths(
    model: nn.Module,
    lines: Mapping[str, Line | tuple[Any, ...]],
    loss: Measure,
    inputs: Tensor,
    targets: Tensor,
    points: int = 51,
    *,
    at_once: int = 32,
    statistics: Iterable[Any] | None = None,
    tolerance: float = 0.01,
) -> dict[str, LossPath]:
    """The losses along several lines, ``at_once`` networks in one vectorised evaluation.

    This is ``loss_path`` for data that fit in one batch: layer by layer, from one solution to
    many starts, or over the members of an ensemble.

    Args:
        model: the network; it is not changed.
        lines: by name, ``Line(start, end, only)`` or the same as a tuple.
        loss: of outputs and targets: a number as a tensor, or such numbers by name.
        inputs: [points, ...].
        targets: likewise.
        points: how many α on each line.
        at_once: networks that are evaluated at once; fewer take less memory.
        statistics: as in ``loss_path``. Measuring them is not vectorised.
        tolerance: as in ``loss_path``.

    Raises:
        ValueError, TypeError: as in ``loss_path``.

    Example:
        >>> model = nn.Linear(2, 1)
        >>> other = {name: torch.zeros_like(t) for name, t in model.state_dict().items()}
        >>> lines = {name: Line(other, model.state_dict(), name) for name in ("weight", "bias")}
        >>> inputs, targets = torch.randn(8, 2), torch.randn(8, 1)
        >>> paths = loss_paths(model, lines, nn.functional.mse_loss, inputs, targets, points=5)
        >>> list(paths), len(paths["bias"].losses)
        (['weight', 'bias'], 5)
    """
    checks.count("points", points, least=2)
    checks.count("at_once", at_once)
    checks.fraction("tolerance", tolerance)
    alphas = torch.linspace(0.0, 1.0, points, dtype=torch.float64)
    ready = _ready(model, lines)
    again = repeatable(statistics)
    jobs = [(name, alpha) for name in ready for alpha in alphas.tolist()]
    found: list[dict[str, Tensor]] = []
    with borrowed(model), torch.no_grad():
        for place in range(0, len(jobs), at_once):
            some = [
                _point(model, *ready[name], alpha, again)
                for name, alpha in jobs[place : place + at_once]
            ]
            stacked = {name: torch.stack([one[name] for one in some]) for name in some[0]}
            found.append(_evaluate(model, stacked, loss, inputs, targets))
    table = {key: torch.cat([part[key] for part in found]).double().cpu() for key in found[0]}
    paths = {}
    for index, name in enumerate(ready):
        rows = slice(index * points, (index + 1) * points)
        values = {key: column[rows] for key, column in table.items()}
        paths[name] = LossPath(alphas, main(values), values, tolerance)
    return paths


def _ready(
    model: nn.Module, lines: Mapping[str, Line | tuple[Any, ...]]
) -> dict[str, tuple[dict[str, Any], dict[str, Any], set[str]]]:
    """For each line both ends, and the names of what moves."""
    if not isinstance(lines, Mapping):
        raise TypeError(f"lines must be lines by name, as a dict, got {type(lines).__name__}")
    if not lines:
        raise ValueError("lines must have at least one line, got none")
    found = {}
    for name, line in lines.items():
        if not isinstance(line, tuple) or len(line) not in (2, 3):
            got = f"{len(line)} entries" if isinstance(line, tuple) else type(line).__name__
            raise TypeError(f"lines[{name!r}] must be Line(start, end, only), got {got}")
        start, end, only = Line(*line)
        first = checked(model, start, f"start of {name!r}")
        found[name] = first, checked(model, end, f"end of {name!r}"), moving(model, only)
    return found


def _point(
    model: nn.Module,
    start: dict[str, Any],
    end: dict[str, Any],
    names: set[str],
    alpha: float,
    statistics: list[Any] | None,
) -> dict[str, Tensor]:
    """The tensors of a point of a line, copied: the model that measures them goes on."""
    state = mixed([(1 - alpha, start), (alpha, end)], end, names)
    if statistics is not None:
        put(model, state, statistics)
        state = model.state_dict()
    return {name: value.clone() for name, value in state.items() if isinstance(value, Tensor)}


def _evaluate(
    model: nn.Module, stacked: dict[str, Tensor], loss: Measure, inputs: Tensor, targets: Tensor
) -> dict[str, Tensor]:
    def one(state: dict[str, Tensor]) -> dict[str, Tensor]:
        value = loss(functional_call(model, state, (inputs,)), targets)
        found = dict(value) if isinstance(value, Mapping) else {"loss": value}
        return {n: checks.scalar("loss", number, f" for {n!r}") for n, number in found.items()}

    return vmap(one)(stacked)
