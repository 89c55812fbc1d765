"""The loss on the plane through three states of a network."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from colangevin import checks
from colangevin.diagnostics.paths import Evaluate, columns, main, numbers, repeatable
from colangevin.diagnostics.states import States, borrowed, checked, mixed, moving, put

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class LossSurface:
    """What was found on a plane.

    Attributes:
        alphas: how far from the origin (0) to the two solutions (1).
        betas: between the second solution (0) and the first one (1).
        losses: [alphas, betas].
        values: everything that was measured, by name, in the same shape.
    """

    alphas: Tensor
    betas: Tensor
    losses: Tensor
    values: Mapping[str, Tensor] = field(default_factory=dict)


def loss_surface(
    model: nn.Module,
    origin: States,
    first: States,
    second: States,
    evaluate: Evaluate,
    points: int = 25,
    only: object = None,
    *,
    statistics: Iterable[Any] | None = None,
) -> LossSurface:
    """The loss on θ(α, β) = β F₁(α) + (1 − β) F₂(α), F_i(α) = θ₀ + α (θ_i − θ₀) (section 3.4).

    Two solutions from the same first weights span it: the edges β = 0 and β = 1 are the lines
    from there to either of them, the edge α = 1 is the line between them.

    Args:
        model: the network; afterwards it is as before.
        origin: θ₀, a state dict.
        first: θ₁.
        second: θ₂.
        evaluate: as in ``loss_path``.
        points: how many α and how many β.
        only: what moves; everything else stays at ``first``. As in ``loss_path``.
        statistics: as in ``loss_path``.

    Raises:
        ValueError, TypeError: as in ``loss_path``.

    Example:
        >>> model = nn.Linear(2, 1, bias=False)
        >>> states = [{"weight": torch.tensor([w])} for w in ([0.0, 0.0], [1.0, 0.0], [0.0, 1.0])]
        >>> surface = loss_surface(model, *states, lambda m: m.weight.square().sum(), points=3)
        >>> surface.losses[-1].tolist()
        [1.0, 0.5, 1.0]
    """
    checks.count("points", points, least=2)
    given = {"origin": origin, "first": first, "second": second}
    start, one, two = [checked(model, state, name) for name, state in given.items()]
    names, again = moving(model, only), repeatable(statistics)
    places = torch.linspace(0.0, 1.0, points, dtype=torch.float64)
    rows = []
    with borrowed(model):
        for a in places.tolist():
            for b in places.tolist():
                weights = [(1 - a, start), (a * b, one), (a * (1 - b), two)]
                put(model, mixed(weights, one, names), again)
                rows.append(numbers(evaluate, model))
    values = {name: column.view(points, points) for name, column in columns(rows).items()}
    return LossSurface(places, places, main(values), values)


def plot_surface(surface: LossSurface, axes: Axes, value: str = "loss") -> None:
    """Draw contours of a surface.

    Example:
        >>> from matplotlib.figure import Figure
        >>> places = torch.linspace(0, 1, 3)
        >>> axes = Figure().subplots()
        >>> plot_surface(LossSurface(places, places, torch.rand(3, 3)), axes)
        >>> axes.get_xlabel()
        'α: from the origin to the solutions'
    """
    heights = surface.losses if value == "loss" else surface.values[value]
    lines = axes.contourf(surface.alphas, surface.betas, heights.T, levels=20, cmap="viridis")
    axes.figure.colorbar(lines, ax=axes, label=value)
    axes.set(xlabel="α: from the origin to the solutions", ylabel="β: from second to first")
