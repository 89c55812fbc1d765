"""Several lines at once: the losses of many networks as one vectorised evaluation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from colangevin import checks
from colangevin.diagnostics.paths import LossPath, main
from colangevin.diagnostics.states import States, borrowed, checked, moving

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
    tolerance: float = 0.01,
) -> dict[str, LossPath]:
    """The losses along several lines, ``at_once`` networks in one vectorised evaluation.

    This is ``loss_path`` for data that fit in one batch: layer by layer, from one solution to
    many starts, or over the members of an ensemble. Buffers are interpolated.

    Args:
        model: the network; it is not changed.
        lines: by name, ``Line(start, end, only)`` or the same as a tuple.
        loss: of outputs and targets: a number, or numbers by name.
        inputs: [points, ...].
        targets: likewise.
        points: how many α on each line.
        at_once: networks that are evaluated at once; fewer take less memory.
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
    if not lines:
        raise ValueError("lines must have at least one line, got none")
    alphas = torch.linspace(0.0, 1.0, points, dtype=torch.float64)
    ready = {name: _ready(model, name, Line(*line)) for name, line in lines.items()}
    jobs = [(name, alpha) for name in ready for alpha in alphas.tolist()]
    found: list[dict[str, Tensor]] = []
    with borrowed(model), torch.no_grad():
        for place in range(0, len(jobs), at_once):
            some = [_point(*ready[name], alpha) for name, alpha in jobs[place : place + at_once]]
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
    model: nn.Module, name: str, line: Line
) -> tuple[dict[str, Tensor], dict[str, Tensor], set[str]]:
    """Tensors of both ends, and the names of those that move."""
    ends = []
    for argument, state in (("start", line.start), ("end", line.end)):
        whole = checked(model, state, f"{argument} of {name!r}")
        ends.append({key: value for key, value in whole.items() if isinstance(value, Tensor)})
    return ends[0], ends[1], moving(model, line.only)


def _point(
    start: dict[str, Tensor], end: dict[str, Tensor], names: set[str], alpha: float
) -> dict[str, Tensor]:
    return {
        name: (1 - alpha) * start[name] + alpha * value
        if name in names and value.is_floating_point()
        else value
        for name, value in end.items()
    }


def _evaluate(
    model: nn.Module, stacked: dict[str, Tensor], loss: Measure, inputs: Tensor, targets: Tensor
) -> dict[str, Tensor]:
    def one(state: dict[str, Tensor]) -> dict[str, Tensor]:
        value = loss(functional_call(model, state, (inputs,)), targets)
        return dict(value) if isinstance(value, Mapping) else {"loss": value}

    return vmap(one)(stacked)
