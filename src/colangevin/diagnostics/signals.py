"""What passes through the layers: norms of gradients, and singular values of layer products.

The gradient of an early layer is a product of the Jacobians of the later ones. If their singular
values are below 1 it vanishes with depth, if they are above 1 it explodes (section 4.3).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import torch
from torch import Tensor, nn
from torch.func import functional_call, jacrev, vmap

from colangevin import checks
from colangevin.diagnostics.states import evaluating, looked_at
from colangevin.optimizers.naming.matching import is_weight, listed, named_parameters, select

if TYPE_CHECKING:
    from matplotlib.axes import Axes


Signals: TypeAlias = (
    "Mapping[str, float] | Mapping[str, Mapping[str, float]] | Sequence[Product] | Tensor"
)


class Product(NamedTuple):
    """Singular values of the product of some first layers.

    Attributes:
        name: of the last layer in the product.
        singular_values: from the largest to the smallest.
    """

    name: str
    singular_values: Tensor

    @property
    def condition(self) -> float:
        """The largest singular value over the smallest one; infinite if that is 0."""
        largest, smallest = float(self.singular_values[0]), float(self.singular_values[-1])
        return largest / smallest if smallest else math.inf


def gradient_norms(
    model: nn.Module, loss: Callable[[], Tensor], only: object = None
) -> dict[str, float]:
    """The norm of the loss's gradient for each parameter, over √(entries), by name.

    It is the root mean square of the entries, so that layers of different sizes compare. The
    model stays in the mode that it is in, so BatchNorm and dropout act as in your training.
    Afterwards buffers and the ``grad`` of the parameters are as before.

    Args:
        model: the network.
        loss: computes the loss of this network.
        only: a pattern of the parameters; by default all weights, without biases.

    Raises:
        ValueError: if a pattern matches nothing, no parameter needs a gradient, or the loss does
            not depend on any of them.
        TypeError: if an argument is of another type.

    Example:
        >>> model = nn.Linear(2, 1, bias=False)
        >>> gradient_norms(model, lambda: 3 * model.weight.sum())
        {'weight': 3.0}
    """
    entries = named_parameters(model)
    chosen = (
        [entry for entry in entries if any(map(is_weight, entry.names))]
        if only is None
        else select(only, entries, prefix="only: ")
    )
    moved = {entry.name: entry.parameter for entry in chosen if entry.parameter.requires_grad}
    if not moved:
        raise ValueError("no parameter that was chosen needs a gradient")
    with looked_at(model), torch.enable_grad():
        value = checks.scalar("loss", loss())
        wanted = list(moved.values())
        found = (
            torch.autograd.grad(value, wanted, allow_unused=True)
            if value.requires_grad
            else [None] * len(wanted)
        )
    if all(gradient is None for gradient in found):
        raise ValueError(f"loss must depend on one of {listed(moved)}, got one that does not")
    return {
        name: 0.0 if gradient is None else float(gradient.double().square().mean().sqrt())
        for name, gradient in zip(moved, found, strict=True)
    }


def layer_products(model: nn.Module, only: object = nn.Linear) -> list[Product]:
    """Singular values of W¹, W²W¹, W³W²W¹ … for layers that follow one another.

    This is the linear part of the network. Activations are left out; for the network as it is,
    see ``jacobian_spectrum``.

    Args:
        model: the network.
        only: a pattern of the weights, in the order of the model.

    Raises:
        ValueError: if a weight is no matrix, is not finite, or does not fit to the one before.

    Example:
        >>> model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
        >>> for layer in model:
        ...     _ = layer.weight.data.copy_(torch.diag(torch.tensor([2.0, 1.0])))
        >>> [product.singular_values.tolist() for product in layer_products(model)]
        [[2.0, 1.0], [4.0, 1.0]]
    """
    whole: Tensor | None = None
    found: list[Product] = []
    for entry in select(only, named_parameters(model), prefix="only: "):
        weight = checks.finite(entry.name, entry.parameter.detach().double())
        if weight.dim() != 2:
            shape = tuple(weight.shape)
            raise ValueError(
                f"{entry.name} must be a matrix, got shape {shape}; see jacobian_spectrum for "
                "networks of other layers"
            )
        if whole is not None and weight.shape[1] != whole.shape[0]:
            raise ValueError(
                f"{entry.name} takes {weight.shape[1]} inputs, but {found[-1].name} before it has "
                f"{whole.shape[0]} outputs; name layers that follow one another"
            )
        whole = weight if whole is None else weight @ whole
        found.append(Product(entry.name, torch.linalg.svdvals(whole)))
    return found


def jacobian_spectrum(model: nn.Module, inputs: Tensor) -> Tensor:
    """Singular values of ∂ output / ∂ input at each point, [points, rank], in evaluation mode.

    Args:
        model: the network.
        inputs: [points, ...].

    Raises:
        ValueError: if there is no point, or inputs or derivatives are not finite.

    Example:
        >>> jacobian_spectrum(nn.Linear(3, 2), torch.randn(5, 3)).shape
        torch.Size([5, 2])
    """
    if len(inputs) == 0:
        raise ValueError("inputs must have at least one point, got none")
    checks.finite("inputs", inputs)
    state = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    fixed = {name: tensor.detach() for name, tensor in state.items()}

    def output(point: Tensor) -> Tensor:
        return functional_call(model, fixed, (point.unsqueeze(0),)).reshape(-1)

    with evaluating(model):
        jacobians = vmap(jacrev(output))(inputs.detach())
    matrices = jacobians.flatten(2).double()
    return torch.linalg.svdvals(checks.finite("the derivatives of the model", matrices))


def plot_signals(signals: Signals, axes: Axes) -> None:
    """Draw gradient norms by layer, or singular values: of layer products, or at each point.

    Args:
        signals: what ``gradient_norms`` returned, or several of these by name; or what
            ``layer_products`` or ``jacobian_spectrum`` returned.
        axes: of matplotlib.

    Example:
        >>> from matplotlib.figure import Figure
        >>> axes = Figure().subplots()
        >>> plot_signals({"SGD": {"0.weight": 1.0, "2.weight": 0.1}}, axes)
        >>> axes.get_yscale()
        'log'
    """
    if isinstance(signals, Mapping):
        _plot_norms(signals, axes)
    elif isinstance(signals, Tensor):
        _plot_values(signals, axes)
        axes.set(xlabel="point", ylabel="singular values", yscale="log")
    else:
        _plot_values([product.singular_values for product in signals], axes)
        names = [product.name for product in signals]
        axes.set_xticks(range(len(names)), names, rotation=30)
        axes.set(xlabel="up to layer", ylabel="singular values", yscale="log")


def _plot_norms(signals: Mapping[str, Any], axes: Axes) -> None:
    several = all(isinstance(norms, Mapping) for norms in signals.values())
    for name, norms in signals.items() if several else [(None, signals)]:
        axes.plot(list(norms), list(norms.values()), "o-", label=name)
    if several:
        axes.legend(fontsize="small")
    axes.set(xlabel="parameter", ylabel="root mean square of the gradient", yscale="log")
    axes.tick_params(axis="x", labelrotation=30)


def _plot_values(columns: Iterable[Tensor], axes: Axes) -> None:
    for place, values in enumerate(columns):
        axes.plot([place] * len(values), values.cpu(), "_", color="C0", markersize=12)
