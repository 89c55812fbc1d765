"""Recording: from the chains to rows of a trace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

import torch
from torch import Tensor
from torch.func import vmap

from colangevin.sampling.plans import Observable
from colangevin.sampling.traces import OBSERVABLE, PARAMETER, STATISTIC


class Observer:
    """Evaluates an observable for all chains; its shape must stay the same.

    Args:
        name: for messages.
        function: of one chain's parameters by name.
    """

    def __init__(self, name: str, function: Observable) -> None:
        self._name, self._function = name, function
        self._shape: torch.Size | None = None
        self._together = True

    @torch.no_grad()
    def __call__(self, weights: Mapping[str, Tensor]) -> Tensor:
        """[chains, ...].

        Raises:
            TypeError, ValueError: for what is no tensor of the same shape as before.
        """
        found = self._values(dict(weights))
        if self._shape is None:
            self._shape = found.shape
        elif found.shape != self._shape:
            self._refuse(self._shape[1:], found.shape[1:])
        return found

    def _values(self, weights: dict[str, Tensor]) -> Tensor:
        if self._together:
            try:
                together: Tensor = vmap(self._one)(weights)
                return together
            except RuntimeError:  # not every function can be vectorised
                self._together = False
        chains = len(next(iter(weights.values())))
        values = [self._one({n: w[i] for n, w in weights.items()}) for i in range(chains)]
        for value in values[1:]:
            if value.shape != values[0].shape:
                self._refuse(values[0].shape, value.shape)
        return torch.stack(values)

    def _one(self, weights: dict[str, Tensor]) -> Tensor:
        return torch.as_tensor(self._function(weights))

    def _refuse(self, first: torch.Size, later: torch.Size) -> None:
        raise ValueError(
            f"the observable {self._name!r} must always return the same shape; it was "
            f"{tuple(first)}, then {tuple(later)}"
        )


class Recorder:
    """Makes the rows of a trace.

    Args:
        parameters: names of all parameters.
        keep: patterns of those to keep; None for all.
        observables: functions by name.

    Raises:
        ValueError: for a pattern that matches nothing.
    """

    def __init__(
        self,
        parameters: Sequence[str],
        keep: Sequence[str] | None,
        observables: Mapping[str, Observable],
    ) -> None:
        self.kept = matching("keep", keep, parameters)
        self._observers = {name: Observer(name, f) for name, f in observables.items()}

    def row(
        self, weights: Mapping[str, Tensor], statistics: Mapping[str, Tensor]
    ) -> dict[str, Tensor]:
        """A draw of all chains, [chains, ...] by kind and name."""
        found = {f"{PARAMETER}/{name}": weights[name] for name in self.kept}
        found |= self.observed(weights)
        for name, values in statistics.items():
            found[f"{STATISTIC}/{name}"] = values
        return found

    def watched(self, patterns: str | Sequence[str] | None) -> list[str]:
        """The names that patterns choose, of what is recorded and judged.

        Raises:
            ValueError: for a pattern that matches nothing.
        """
        return matching("watch", patterns, ["loss", *self.observables, *self.kept])

    @property
    def observables(self) -> list[str]:
        """Their names."""
        return list(self._observers)

    def observed(self, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The observables of all chains, by kind and name."""
        return {f"{OBSERVABLE}/{name}": own(weights) for name, own in self._observers.items()}


def matching(
    argument: str, patterns: str | Sequence[str] | None, names: Sequence[str]
) -> list[str]:
    """The names that patterns choose; None chooses all.

    Raises:
        ValueError: for a pattern that matches nothing.

    Example:
        >>> matching("keep", ["0.*"], ["0.weight", "0.bias", "2.weight"])
        ['0.weight', '0.bias']
    """
    chosen = ["*"] if patterns is None else [patterns] if isinstance(patterns, str) else patterns
    for pattern in chosen:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise ValueError(f"{argument}={pattern!r} matches no parameter of {list(names)}")
    return [name for name in names if any(fnmatchcase(name, pattern) for pattern in chosen)]
