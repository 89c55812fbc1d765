"""Sizes of weights, and how they are distributed: over time, over runs, by layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from colangevin import checks
from colangevin.optimizers.naming.matching import listed, named_parameters, select

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def largest_weight(model: nn.Module) -> float:
    """The largest absolute value of a model's weights, biases aside; NaN if one of them is NaN.

    Raises:
        ValueError: if it has none.

    Example:
        >>> largest_weight(nn.Linear(4, 4)) <= 0.5
        True
    """
    weights = [p for name, p in model.named_parameters() if "weight" in name]
    if not weights:
        raise ValueError(f"model has no weights: {type(model).__name__}")
    sizes = [float(weight.detach().abs().max()) for weight in weights]
    return float(torch.tensor(sizes, dtype=torch.float64).max())  # max() of Python may lose NaN


@dataclass(frozen=True)
class Distribution:
    """How the entries of a parameter are distributed, pooled over networks.

    Attributes:
        edges: of the bins, one more than there are bins.
        counts: entries in each bin; those beyond the edges are in none.
        total: how many entries there are.
        mean: of all entries.
        deviation: standard deviation of all entries.
        largest: the largest absolute value.
        near_zero: share of the entries with an absolute value below ``threshold``.
        threshold: what counts as near zero.
    """

    edges: Tensor
    counts: Tensor
    total: int
    mean: float
    deviation: float
    largest: float
    near_zero: float
    threshold: float

    @property
    def density(self) -> Tensor:
        """Share of the entries in each bin, over its width."""
        return self.counts / (self.total * self.edges.diff())


def weight_distributions(
    networks: nn.Module | Sequence[nn.Module],
    only: object = None,
    *,
    bins: int = 60,
    limit: float | None = None,
    threshold: float = 1e-2,
) -> dict[str, Distribution]:
    """How the weights of each parameter are distributed, pooled over networks (section 3.5).

    Call it at several steps for a course over time, with the same ``limit``.

    Args:
        networks: a network, or several of the same kind, such as the members of an ensemble.
        only: a pattern of the parameters, as in ``parameter_groups``; all if not given.
        bins: how many.
        limit: bins lie evenly on [−limit, limit]. If not given, up to the largest weight.
        threshold: absolute values below it are near zero.

    Returns:
        One distribution for each parameter, by name.

    Raises:
        ValueError: if a pattern matches nothing, the networks differ, or a weight is not finite.
        TypeError: if an argument is of another type.

    Example:
        >>> models = [nn.Linear(3, 2) for _ in range(5)]
        >>> found = weight_distributions(models, "weight", bins=4)
        >>> found["weight"].total, int(found["weight"].counts.sum())
        (30, 30)
    """
    models = [networks] if isinstance(networks, nn.Module) else list(networks)
    if not models:
        raise ValueError("networks must have at least one network, got none")
    checks.count("bins", bins)
    low = checks.positive("threshold", threshold)
    half = None if limit is None else checks.positive("limit", limit)
    tables = [_chosen(model, only) for model in models]
    found = {}
    for name, values in _pooled(tables).items():
        found[name] = _distribution(checks.finite(name, values), bins, half, low)
    return found


def _chosen(model: nn.Module, only: object) -> dict[str, Tensor]:
    entries = named_parameters(model)
    chosen = entries if only is None else select(only, entries, prefix="only: ")
    return {entry.name: entry.parameter.detach().double().cpu() for entry in chosen}


def _pooled(tables: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """All entries of each parameter, of networks that must be of one kind."""
    first = {name: tuple(values.shape) for name, values in tables[0].items()}
    for index, table in enumerate(tables):
        if list(table) != list(first):
            raise ValueError(
                "networks must have parameters of the same names, got "
                f"{listed(first)} in the first and {listed(table)} in networks[{index}]"
            )
        for name, shape in first.items():
            if tuple(table[name].shape) != shape:
                raise ValueError(
                    f"networks must have {name} of the same shape, got {shape} in the first and "
                    f"{tuple(table[name].shape)} in networks[{index}]"
                )
    return {name: torch.cat([table[name].reshape(-1) for table in tables]) for name in first}


def _distribution(values: Tensor, bins: int, limit: float | None, threshold: float) -> Distribution:
    size = values.abs()
    half = limit or float(size.max()) or 1.0
    edges = torch.linspace(-half, half, bins + 1, dtype=torch.float64)
    counts = torch.histc(values[size <= half], bins, -half, half)
    return Distribution(
        edges,
        counts,
        len(values),
        float(values.mean()),
        float(values.std(correction=0)),
        float(size.max()),
        float((size < threshold).double().mean()),
        threshold,
    )


def plot_weights(distributions: Mapping[str, Distribution], axes: Axes) -> None:
    """Draw distributions by name, such as one per step or one per method, in one picture.

    Example:
        >>> from matplotlib.figure import Figure
        >>> axes = Figure().subplots()
        >>> plot_weights(weight_distributions(nn.Linear(3, 2)), axes)
        >>> len(axes.get_legend_handles_labels()[1])
        2
    """
    for name, found in distributions.items():
        middles = (found.edges[1:] + found.edges[:-1]) / 2
        says = f"{name}: {100 * found.near_zero:.0f} % below {found.threshold:g}"
        axes.step(middles, found.density, where="mid", label=says)
    axes.set(xlabel="weight", ylabel="density", yscale="log")
    low, high = axes.get_ylim()
    room = min(0.5, 0.03 + 0.065 * len(distributions))  # of the height, above, for the legend
    axes.set_ylim(low, high * (high / low) ** (room / (1 - room)))
    axes.legend(fontsize="small", loc="upper center")
