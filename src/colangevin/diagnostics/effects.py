"""How much each data point moves the weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from colangevin import checks
from colangevin.diagnostics.states import evaluating
from colangevin.optimizers.naming.matching import named_parameters, select

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def point_effects(
    model: nn.Module,
    loss: Callable[[Any, Any], Tensor],
    inputs: Tensor,
    targets: Tensor,
    only: object = None,
    *,
    step: float = 1.0,
) -> Tensor:
    """How far a step on each data point alone would move the weights: step · ‖∇L_i(θ)‖.

    This isolates the effect of single data points (section 3.6, "Evolution"). It is the move of
    SGD with this step, and the kick B of every other scheme.

    Args:
        model: the network, in evaluation mode while it is evaluated.
        loss: of the outputs and targets of one point, given as a batch of one.
        inputs: [points, ...].
        targets: [points, ...].
        only: a pattern of the parameters that count; all if not given.
        step: the step size.

    Returns:
        One number per point.

    Raises:
        ValueError: if there are no points, inputs and targets do not belong together or are not
            finite, or a pattern matches nothing.
        TypeError: if the loss is not one number.

    Example:
        >>> model = nn.Linear(1, 1, bias=False)
        >>> _ = nn.init.zeros_(model.weight)
        >>> inputs, targets = torch.tensor([[1.0], [2.0]]), torch.tensor([[1.0], [1.0]])
        >>> point_effects(model, nn.functional.mse_loss, inputs, targets).tolist()
        [2.0, 4.0]
    """
    if len(inputs) == 0 or len(inputs) != len(targets):
        raise ValueError(
            f"inputs and targets must have as many points, at least one, got {len(inputs)} and "
            f"{len(targets)}"
        )
    checks.finite("inputs", inputs)
    checks.finite("targets", targets)
    size = checks.positive("step", step)
    entries = named_parameters(model)
    chosen = entries if only is None else select(only, entries, prefix="only: ")
    moved = {entry.name: entry.parameter.detach() for entry in chosen}
    state = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    rest = {name: t.detach() for name, t in state.items() if name not in moved}

    def of_one(own: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        outputs = functional_call(model, {**rest, **own}, (x.unsqueeze(0),))
        return checks.scalar("loss", loss(outputs, y.unsqueeze(0)))

    with evaluating(model):
        found = vmap(grad(of_one), in_dims=(None, 0, 0))(moved, inputs, targets)
    squares = [gradient.double().flatten(1).square().sum(dim=1) for gradient in found.values()]
    return size * torch.stack(squares).sum(dim=0).sqrt()


def plot_effects(inputs: Tensor, effects: Tensor, axes: Axes) -> None:
    """Draw points of the plane, coloured by their effect.

    Example:
        >>> from matplotlib.figure import Figure
        >>> axes = Figure().subplots()
        >>> plot_effects(torch.randn(5, 2), torch.rand(5), axes)
    """
    marks = axes.scatter(inputs[:, 0], inputs[:, 1], c=effects, s=12, cmap="viridis")
    axes.figure.colorbar(marks, ax=axes, label="effect on the weights")
