"""Who is fast and who is slow: the partitions for multirate training."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from torch import nn

from colangevin import checks


class Rates(NamedTuple):
    """A model's parameters at two rates; unpack it into ``Multirate.sgd``.

    Attributes:
        fast: parameters that get a gradient at every step.
        slow: the others.
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
    owners = list(dict.fromkeys(_owner(name) for name, _ in model.named_parameters()))
    if checks.count("layers", layers) >= len(owners):
        raise ValueError(
            f"layers must be less than the {len(owners)} layers with parameters, got {layers}"
        )
    fast = set(owners[-layers:])
    return _split(model, lambda name: _owner(name) not in fast, f"layers={layers}")


def fast_by_name(model: nn.Module, *patterns: str) -> Rates:
    """The parameters whose name matches one of the patterns (``fnmatch``) fast, the rest slow.

    Raises:
        ValueError: if a pattern matches nothing, or together they match everything.

    Example:
        >>> model = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
        >>> len(fast_by_name(model, "2.*").slow)
        2
    """
    names = [name for name, _ in model.named_parameters()]
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise ValueError(f"the pattern {pattern!r} matches none of {', '.join(names)}")

    def slow(name: str) -> bool:
        return not any(fnmatchcase(name, pattern) for pattern in patterns)

    return _split(model, slow, f"patterns={patterns!r}")


def biases_slow(model: nn.Module) -> Rates:
    """Every bias slow, everything else fast (section 5.9.4).

    Raises:
        ValueError: if the model has no bias, or nothing else.

    Example:
        >>> [tuple(p.shape) for p in biases_slow(nn.Linear(2, 3)).slow]
        [(3,)]
    """
    return _split(model, _is_bias, "biases_slow")


def input_biases_slow(model: nn.Module) -> Rates:
    """The biases of the first layer that has any slow, everything else fast (figure 5.11).

    Raises:
        ValueError: if the model has no bias, or nothing else.

    Example:
        >>> model = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
        >>> [tuple(p.shape) for p in input_biases_slow(model).slow]
        [(3,)]
    """
    first = next((_owner(n) for n, _ in model.named_parameters() if _is_bias(n)), None)
    return _split(model, lambda n: _is_bias(n) and _owner(n) == first, "input_biases_slow")


def random_subsets(model: nn.Module, probabilities: Mapping[str, float]) -> list[dict[str, Any]]:
    """Groups for ``SubsetMultirate``: how likely a weight is to be slow, by name (section 5.5.1).

    Args:
        model: the network.
        probabilities: by pattern (``fnmatch``); the first that matches wins. Unmatched
            parameters are never slow.

    Raises:
        ValueError: if a pattern matches no parameter that is still free.

    Example:
        >>> groups = random_subsets(nn.Linear(2, 3), {"weight": 0.5})
        >>> [group["probability"] for group in groups]
        [0.5, 0.0]
    """
    left = dict(model.named_parameters())
    groups: list[dict[str, Any]] = []
    for pattern, probability in probabilities.items():
        checks.fraction(f"the probability of {pattern!r}", probability)
        members = [left.pop(name) for name in list(left) if fnmatchcase(name, pattern)]
        if not members:
            raise ValueError(
                f"the pattern {pattern!r} matches no parameter that is still free; "
                f"the model has {', '.join(dict(model.named_parameters()))}"
            )
        groups.append({"params": members, "probability": probability})
    if left:
        groups.append({"params": list(left.values()), "probability": 0.0})
    return groups


def _split(model: nn.Module, slow: Callable[[str], bool], what: str) -> Rates:
    rates = Rates([], [])
    for name, parameter in model.named_parameters():
        (rates.slow if slow(name) else rates.fast).append(parameter)
    for part, members in rates._asdict().items():
        if not members:
            raise ValueError(f"{what} leaves no {part} parameters")
    return rates


def _owner(name: str) -> str:
    return name.rpartition(".")[0]


def _is_bias(name: str) -> bool:
    return "bias" in name.rpartition(".")[2]
