"""Priors: distributions of torch for the parameters that patterns choose."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.distributions import Distribution

Prior: TypeAlias = "float | Mapping[str, Distribution] | None"


def check_priors(prior: Mapping[Any, Any]) -> None:
    """Refuse what is no distribution by pattern.

    Raises:
        TypeError: naming the entry.
    """
    for pattern, own in prior.items():
        if not isinstance(pattern, str) or not isinstance(own, Distribution):
            raise TypeError(
                "prior must be a standard deviation, or distributions of torch by pattern of "
                f"names, got {pattern!r}: {own!r}"
            )


def penalty_of(
    prior: Mapping[str, Distribution], names: Sequence[str], unit: float
) -> Callable[[Mapping[str, Tensor]], Tensor]:
    """−log density of one chain's parameters by name, times the τ of the Bayes posterior.

    Args:
        prior: distributions by pattern; the first that matches a name counts.
        names: of the parameters.
        unit: that τ.

    Raises:
        ValueError: for a pattern that matches nothing.

    Example:
        >>> normal = torch.distributions.Normal(0.0, 2.0)
        >>> own = penalty_of({"*.weight": normal}, ["0.weight", "0.bias"], 0.5)
        >>> float(own({"0.weight": torch.zeros(3), "0.bias": torch.ones(3)}))  # doctest: +ELLIPSIS
        2.418...
    """
    chosen: dict[str, Distribution] = {}
    left = list(names)
    for pattern, own in prior.items():
        matched = [name for name in left if fnmatchcase(name, pattern)]
        if not matched:
            raise ValueError(
                f"prior={pattern!r} matches no parameter of {list(names)} that is left"
            )
        chosen.update(dict.fromkeys(matched, unchecked(own)))
        left = [name for name in left if name not in matched]

    def penalty(parameters: Mapping[str, Tensor]) -> Tensor:
        terms = [own.log_prob(parameters[name]).sum() for name, own in chosen.items()]
        return -unit * torch.stack(terms).sum()

    return penalty


def unchecked(own: Distribution) -> Distribution:
    """A copy that looks at no values: chains are one computation, which cannot branch on them."""
    made = copy.deepcopy(own)
    for inner in (made, *vars(made).values()):
        if isinstance(inner, Distribution):
            inner._validate_args = False
    return made
