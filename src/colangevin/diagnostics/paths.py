"""The loss along lines between states of a network, and the shape that it has there.

The line of thesis (3.34) and (6.1) is θ(α) = (1 − α) θ_start + α θ_end. Buffers are on the line
too, so the running statistics of BatchNorm are interpolated, or measured anew at every point.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import torch
from torch import Tensor, nn

from colangevin import checks
from colangevin.diagnostics.states import States, borrowed, checked, mixed, moving, put
from colangevin.optimizers.naming.matching import named_parameters, select

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Evaluate: TypeAlias = "Callable[[nn.Module], float | Tensor | Mapping[str, float | Tensor]]"

FLAT = 0.05
"""Share of the whole fall below which the loss still counts as flat."""
ROUNDING = 10 * torch.finfo(torch.float32).eps
"""Share of the largest loss below which a rise may be rounding, in the usual float32."""


class Barrier(NamedTuple):
    """The largest rise of the loss on the way down.

    Attributes:
        height: how much the loss rises, 0 if it never does.
        alpha: where it is highest then; NaN if it never rises.
    """

    height: float
    alpha: float


@dataclass(frozen=True)
class LossPath:
    """What was found along a line.

    Attributes:
        alphas: places from 0 (start) to 1 (end).
        losses: the loss there.
        values: everything that was measured there, by name.
        tolerance: rises below this share of the range of the losses count as none.

    Example:
        >>> alphas = torch.linspace(0, 1, 5)
        >>> path = LossPath(alphas, torch.tensor([1.0, 0.4, 0.9, 0.2, 0.0]))
        >>> path.shape, round(path.barrier.height, 3), path.barrier.alpha
        ('barrier', 0.5, 0.5)
    """

    alphas: Tensor
    losses: Tensor
    values: Mapping[str, Tensor] = field(default_factory=dict)
    tolerance: float = 0.01

    @property
    def barrier(self) -> Barrier:
        """The largest rise, going from the end of higher loss to the other one.

        Both numbers are NaN if a loss is not finite.
        """
        losses, alphas = self.losses.double(), self.alphas.double()
        if not bool(losses.isfinite().all()):
            return Barrier(math.nan, math.nan)
        if losses[0] < losses[-1]:
            losses, alphas = losses.flip(0), alphas.flip(0)
        rises = losses - torch.cummin(losses, dim=0).values
        peak = int(rises.argmax())
        height = float(rises[peak])
        return Barrier(height, float(alphas[peak]) if height > 0 else math.nan)

    @property
    def shape(self) -> str:
        """One of "barrier" (the loss rises on the way down), "plateau" and "monotone".

        A rise counts if it is larger than ``tolerance`` times the range of the losses, and larger
        than 1.2e-6 of the largest loss, which may be rounding in float32. On a plateau the loss
        has fallen by less than 5 % of its whole fall at half of the way. With NaN or infinity
        among the losses the shape is "not finite".
        """
        losses = self.losses.double()
        if not bool(losses.isfinite().all()):
            return "not finite"
        size = float(losses.max() - losses.min())
        rounding = ROUNDING * float(losses.abs().max())
        if size <= rounding:
            return "plateau"
        if self.barrier.height > max(self.tolerance * size, rounding):
            return "barrier"
        down = losses if losses[0] >= losses[-1] else losses.flip(0)
        middle = down[: (len(down) + 1) // 2]
        return "plateau" if float(down[0] - middle.min()) < FLAT * size else "monotone"


def loss_path(
    model: nn.Module,
    start: States,
    end: States,
    evaluate: Evaluate,
    points: int = 51,
    only: object = None,
    *,
    statistics: Iterable[Any] | None = None,
    tolerance: float = 0.01,
) -> LossPath:
    """The loss along the line θ(α) = (1 − α) start + α end (3.34, 6.1).

    The model is in evaluation mode while it is evaluated. Afterwards its weights, buffers and
    modes are as before.

    Args:
        model: the network.
        start: a state dict, at α = 0: the first weights, or any others.
        end: a state dict, at α = 1.
        evaluate: returns the loss of the model that it is given, or numbers by name of which
            "loss" (or else the first) is the loss.
        points: how many α, evenly spaced.
        only: what moves; everything else stays at ``end`` (6.2). A pattern as in
            ``parameter_groups``, such as "layer3.*", or a module, or a tuple of patterns.
            Patterns may name buffers: "*.running_*".
        statistics: batches of inputs. Then the statistics of all BatchNorm layers are measured
            on them at every α. If not given, they are interpolated like the weights.
        tolerance: rises below this share of the range of the losses are not a barrier.

    Raises:
        ValueError: for state dicts of other names or shapes, with NaN, or a pattern that
            matches nothing.
        TypeError: if an argument is of another type.

    Example:
        >>> model = nn.Linear(1, 1, bias=False)
        >>> start, end = {"weight": torch.tensor([[-1.0]])}, {"weight": torch.tensor([[1.0]])}
        >>> path = loss_path(model, start, end, lambda m: (m.weight**2 - 1).square().sum(), 5)
        >>> path.losses.tolist(), path.shape, path.barrier
        ([0.0, 0.5625, 1.0, 0.5625, 0.0], 'barrier', Barrier(height=1.0, alpha=0.5))
    """
    checks.count("points", points, least=2)
    checks.fraction("tolerance", tolerance)
    first, last = checked(model, start, "start"), checked(model, end, "end")
    names = moving(model, only)
    again = repeatable(statistics)
    alphas = torch.linspace(0.0, 1.0, points, dtype=torch.float64)
    rows = []
    with borrowed(model):
        for alpha in alphas.tolist():
            put(model, mixed([(1 - alpha, first), (alpha, last)], last, names), again)
            rows.append(numbers(evaluate, model))
    values = columns(rows)
    return LossPath(alphas, main(values), values, tolerance)


def repeatable(statistics: Iterable[Any] | None) -> list[Any] | None:
    """Batches that can be read more than once.

    Raises:
        TypeError, ValueError: if these are no batches, or none.
    """
    if statistics is None:
        return None
    if isinstance(statistics, Tensor) or not isinstance(statistics, Iterable):
        raise TypeError(
            "statistics must be batches of inputs, such as [inputs] or a DataLoader, got "
            f"{type(statistics).__name__}"
        )
    found = list(statistics)
    if not found:
        raise ValueError("statistics must have at least one batch of inputs, got none")
    return found


def numbers(evaluate: Evaluate, model: nn.Module) -> dict[str, float]:
    """What a user's function finds, as numbers by name.

    Raises:
        TypeError: if it is no function, or returns anything else.

    Example:
        >>> numbers(lambda model: torch.tensor(2.0), nn.Linear(1, 1))
        {'loss': 2.0}
    """
    if not callable(evaluate):
        raise TypeError(f"evaluate must be a function of the model, got {evaluate!r}")
    with torch.no_grad():
        found = evaluate(model)
    table = found if isinstance(found, Mapping) else {"loss": found}
    if not table:
        raise ValueError("evaluate must return at least one number, got an empty dict")
    for name, value in table.items():
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        one = isinstance(value, Tensor) and value.numel() == 1 and not value.is_complex()
        if not number and not one:
            raise TypeError(f"evaluate must return numbers, got {value!r} for {name!r}")
    return {name: float(value) for name, value in table.items()}


def columns(rows: list[dict[str, float]]) -> dict[str, Tensor]:
    """Rows of numbers by name as one tensor per name, in double precision."""
    double = torch.float64
    return {name: torch.tensor([row[name] for row in rows], dtype=double) for name in rows[0]}


def main(values: Mapping[str, Tensor]) -> Tensor:
    """The loss among the values: "loss", or else the first."""
    return values["loss"] if "loss" in values else next(iter(values.values()))


def relative_distance(model: nn.Module, start: States, end: States, only: object = None) -> float:
    """‖θ_end − θ_start‖ / ‖θ_start‖ over the parameters (6.3), buffers aside.

    Args:
        model: the network.
        start: a state dict.
        end: a state dict.
        only: a pattern of the parameters that count; all if not given.

    Raises:
        ValueError: as in ``loss_path``, or if θ_start is 0.

    Example:
        >>> model = nn.Linear(1, 1, bias=False)
        >>> relative_distance(model, {"weight": torch.ones(1, 1)}, {"weight": 3 * torch.ones(1, 1)})
        2.0
    """
    first, last = checked(model, start, "start"), checked(model, end, "end")
    entries = named_parameters(model)
    chosen = entries if only is None else select(only, entries, prefix="only: ")
    moved = sum(float((last[e.name] - first[e.name]).double().square().sum()) for e in chosen)
    size = sum(float(first[entry.name].double().square().sum()) for entry in chosen)
    if size == 0.0:
        raise ValueError("start must not be 0 everywhere: a relative distance needs its size")
    return math.sqrt(moved / size)


def plot_paths(paths: Mapping[str, LossPath] | LossPath, axes: Axes, value: str = "loss") -> None:
    """Draw one path, or several by name, with a mark where a barrier is.

    Args:
        paths: what ``loss_path`` or ``loss_paths`` returned.
        axes: of matplotlib.
        value: which of the measured values to draw.

    Example:
        >>> from matplotlib.figure import Figure
        >>> path = LossPath(torch.linspace(0, 1, 3), torch.tensor([1.0, 2.0, 0.0]))
        >>> axes = Figure().subplots()
        >>> plot_paths({"all": path}, axes)
        >>> axes.get_legend_handles_labels()[1]
        ['all: barrier 1 at 0.50']
    """
    named = {"": paths} if isinstance(paths, LossPath) else paths
    for name, path in named.items():
        heights = path.losses if value == "loss" else path.values[value]
        found = path.barrier
        says = path.shape
        if says == "barrier":
            says += f" {found.height:.3g} at {found.alpha:.2f}"
        (line,) = axes.plot(path.alphas, heights, label=f"{name}: {says}" if name else says)
        if path.shape == "barrier" and value == "loss" and math.isfinite(found.alpha):
            at = int((path.alphas - found.alpha).abs().argmin())
            axes.plot(path.alphas[at], heights[at], "v", color=line.get_color())
    axes.set(xlabel="α: from start to end", ylabel=value)
    axes.legend(fontsize="small")
