"""Recipes: what one call does to the parameters of a group, as numbers.

The numbers are plain, or tensors with one entry per member of an ensemble. The same recipe is
carried out on batches of tensors, by ``advance``, or by the C kernels, which take it flattened.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from colangevin.constraints.base import Scalar, plus
from colangevin.integrators.dynamics import Action, DriftBy, Dynamics, ImpulseBy, OverdampedBy
from colangevin.integrators.stretches import stretch

KINDS: dict[type, int] = {ImpulseBy: 1, DriftBy: 2, OverdampedBy: 3}
"""How the kernels call the actions."""


def direction(gradient: Tensor, position: Tensor, weight_decay: Scalar) -> Tensor:
    """What B kicks with: the gradient, and the weight decay's share of the weights.

    Example:
        >>> direction(torch.ones(1), torch.full((1,), 2.0), 0.1)
        tensor([1.2000])
    """
    if not isinstance(weight_decay, Tensor) and weight_decay == 0.0:
        return gradient
    return plus(gradient, position, weight_decay)


class Recipe(NamedTuple):
    """The actions of a call with their numbers.

    Attributes:
        actions: one after the other.
        momentum: whether there is a momentum.
        weight_decay: added to the gradient, times the weights.
    """

    actions: tuple[Action, ...]
    momentum: bool
    weight_decay: Scalar = 0.0

    @classmethod
    def of(
        cls, dynamics: Dynamics, weight_decay: float, first: bool, share: tuple[int, int] = (0, 1)
    ) -> Recipe:
        """The recipe of a group's dynamics.

        Args:
            dynamics: the group's settings.
            weight_decay: of the group.
            first: whether the parameters have not been moved before.
            share: which of how many equal stretches of the call.

        Example:
            >>> from colangevin.integrators.scheme import parse
            >>> Recipe.of(Dynamics(0.25, 0.5, 0.0, parse("OBA")), 0.0, first=False).numbers()
            [0.0, 0.0, 0.5, 1.0, 0.0, -0.25, 0.0, 0.0]
        """
        actions = stretch(dynamics.actions(first), *share)
        return cls(actions, not dynamics.is_overdamped, weight_decay)

    def spread(self, shape: Callable[[Tensor], Tensor]) -> Recipe:
        """The recipe with its tensors, one number per member, in the shape of a batch."""
        if not any(isinstance(value, Tensor) for value in self._values()):
            return self

        def put(value: Any) -> Any:
            return shape(value) if isinstance(value, Tensor) else value

        actions: list[Any] = [type(action)(*map(put, action)) for action in self.actions]
        return Recipe(tuple(actions), self.momentum, put(self.weight_decay))

    def _values(self) -> list[Any]:
        return [self.weight_decay, *(value for action in self.actions for value in action)]

    # --- for the kernels --------------------------------------------------------------------

    @property
    def kinds(self) -> list[int]:
        """The actions as the kernels call them."""
        return [KINDS[type(action)] for action in self.actions]

    def numbers(self, radius: float = 0.0, member: int = 0) -> list[float]:
        """Weight decay, radius, and three numbers per action; what is not there is 0."""
        row = [_number(self.weight_decay, member), radius]
        for action in self.actions:
            row += [value if type(value) is float else _number(value, member) for value in action]
            row += [0.0] * (3 - len(action))
        return row

    @property
    def differs(self) -> bool:
        """Whether members of an ensemble have different numbers."""
        return any(isinstance(value, Tensor) for value in self._values())


def _number(value: Any, member: int) -> float:
    if value is None:
        return 0.0
    return float(value[member]) if isinstance(value, Tensor) else float(value)


def joined(recipes: Sequence[Recipe]) -> Recipe:
    """The recipes of an ensemble's members as one.

    Raises:
        ValueError: if the members' steps are of different kinds.

    Example:
        >>> one, two = Recipe((DriftBy(-0.1),), True), Recipe((DriftBy(-0.2),), True)
        >>> joined([one, two]).actions[0].step
        tensor([-0.1000, -0.2000], dtype=torch.float64)
    """
    first = recipes[0]
    if all(recipe is first for recipe in recipes):
        return first
    kinds = [(recipe.momentum, *map(type, recipe.actions)) for recipe in recipes]
    if len(set(kinds)) > 1:
        raise ValueError(
            "the members' steps are of different kinds: all must be overdamped, or none, "
            "and with the same scheme"
        )
    actions: list[Any] = []
    for column in zip(*(recipe.actions for recipe in recipes), strict=True):
        fields = [_column(values) for values in zip(*column, strict=True)]
        actions.append(type(column[0])(*fields))
    decay = _column([recipe.weight_decay for recipe in recipes])
    return Recipe(tuple(actions), first.momentum, 0.0 if decay is None else decay)


def _column(values: Sequence[Any]) -> Any:
    """One number where the members agree, else a tensor; a number that any has, all have."""
    if all(value == values[0] for value in values):
        return values[0]
    return torch.tensor([float(value or 0.0) for value in values], dtype=torch.float64)
