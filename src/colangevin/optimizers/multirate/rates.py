"""Fast and slow parameters: the partitions for multirate training."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from torch import nn

from colangevin import checks
from colangevin.optimizers.naming.matching import (
    is_bias,
    label,
    module_name,
    named_parameters,
    select,
    take,
)


class Rates(NamedTuple):
    """A model's parameters at two rates; unpack it into ``Multirate.sgd``.

    Attributes:
        fast: parameters that get a gradient at every step.
        slow: the others.

    Example:
        >>> model = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
        >>> rates = Rates(fast=list(model[1].parameters()), slow=list(model[0].parameters()))
        >>> len(rates.fast), len(rates.slow)
        (2, 2)
    """

    fast: list[nn.Parameter]
    slow: list[nn.Parameter]


def last_layers_fast(model: nn.Module, layers: int = 1) -> Rates:
    """The last layers fast, all before them slow: backward passes stop early (section 5.4).

    Args:
        model: a network whose modules are registered in the order of the forward pass.
        layers: how many of the modules that have parameters of their own are fast.

    Raises:
        ValueError: if that leaves no slow layer.

    Example:
        >>> model = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
        >>> [tuple(p.shape) for p in last_layers_fast(model).fast]
        [(1, 3), (1,)]
    """
    owners = list(dict.fromkeys(module_name(name) for name, _ in model.named_parameters()))
    if checks.count("layers", layers) >= len(owners):
        raise ValueError(
            f"layers must be less than the {len(owners)} layers with parameters, got {layers}"
        )
    fast = set(owners[-layers:])
    return _split(model, lambda name: module_name(name) not in fast, f"layers={layers}")


def fast_by_name(model: nn.Module, *patterns: Any) -> Rates:
    """The parameters that one of the patterns matches fast, the rest slow.

    Args:
        model: the network.
        *patterns: strings (compared with the parameters' names by ``fnmatch``: "2.*"), module
            types (their weights), modules or parameters. A tied parameter matches by any of
            its names.

    Raises:
        ValueError: if a pattern matches nothing, or together they match everything.

    Example:
        >>> model = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
        >>> len(fast_by_name(model, "2.*").slow)
        2
    """
    entries = named_parameters(model)
    fast = {entry.name for entry in (select(patterns, entries) if patterns else [])}
    return _split(model, lambda name: name not in fast, f"patterns={label(patterns)!r}")


def biases_slow(model: nn.Module) -> Rates:
    """Every bias slow, everything else fast (section 5.9.4).

    Raises:
        ValueError: if the model has no bias, or nothing else.

    Example:
        >>> [tuple(p.shape) for p in biases_slow(nn.Linear(2, 3)).slow]
        [(3,)]
    """
    return _split(model, is_bias, "biases_slow")


def input_biases_slow(model: nn.Module) -> Rates:
    """The biases of the first layer that has any slow, everything else fast (figure 5.11).

    Raises:
        ValueError: if the model has no bias, or nothing else.

    Example:
        >>> model = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
        >>> [tuple(p.shape) for p in input_biases_slow(model).slow]
        [(3,)]
    """
    first = next((module_name(n) for n, _ in model.named_parameters() if is_bias(n)), None)
    return _split(model, lambda n: is_bias(n) and module_name(n) == first, "input_biases_slow")


def random_subsets(model: nn.Module, probabilities: Mapping[Any, float]) -> list[dict[str, Any]]:
    """Groups for ``SubsetMultirate``: how likely a weight is to be slow, by name (section 5.5.1).

    Args:
        model: the network.
        probabilities: by pattern, as in ``fast_by_name``. The first pattern that matches a
            parameter wins. Parameters that none matches are never slow.

    Raises:
        ValueError: if a pattern matches nothing, or only what an earlier one has taken.

    Example:
        >>> groups = random_subsets(nn.Linear(2, 3), {"weight": 0.5})
        >>> [group["probability"] for group in groups]
        [0.5, 0.0]
    """
    entries = named_parameters(model)
    left = list(entries)
    groups: list[dict[str, Any]] = []
    for pattern, probability in probabilities.items():
        checks.fraction(f"the probability of {label(pattern)!r}", probability)
        taken, left = take(pattern, entries, left)
        groups.append({"params": [e.parameter for e in taken], "probability": probability})
    if left:
        groups.append({"params": [entry.parameter for entry in left], "probability": 0.0})
    return groups


def _split(model: nn.Module, slow: Callable[[str], bool], what: str) -> Rates:
    rates = Rates([], [])
    for name, parameter in model.named_parameters():
        (rates.slow if slow(name) else rates.fast).append(parameter)
    for part, members in rates._asdict().items():
        if not members:
            raise ValueError(f"{what} leaves no {part} parameters")
    return rates
