"""Recipes: what one call does to the parameters of a group, as numbers.

``Dynamics`` are the physical settings of a group; with a scheme word they give the actions of a
call. A ``Recipe`` has these actions, or a stretch of them, and the weight decay. Its numbers are
plain, or tensors with one entry per member of an ensemble. The same recipe is carried out on
batches of tensors, by ``advance``, or by the C kernels, which take it flattened.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor

from colangevin.constraints.base import Scalar, add_scaled
from colangevin.integrators.scheme import Action, Drift, Impulse, Move, Overdamped, Scheme, damped

FAINT = 1e-30
"""Up to this lr a step is below any rounding, while 1/lr would overflow float32."""

ROUNDING = 1e-9
"""Of a stretch: places nearer than this are the same."""

T = TypeVar("T", Action, Move)


class Dynamics(NamedTuple):
    """The physical settings of a parameter group.

    Attributes:
        lr: h² of an underdamped scheme, h of the overdamped one; a tensor where a graph captures
            the step, which reads it anew whenever it is replayed.
        decay: e^{−γh}, the momentum of SGD.
        temperature: τ.
        scheme: the word, read.
    """

    lr: Scalar
    decay: float
    temperature: float
    scheme: Scheme

    @property
    def is_overdamped(self) -> bool:
        """No memory of the momentum, in a word that has no limit of its own."""
        return self.decay == 0.0 and not self.scheme.has_limit

    def actions(self, first: bool) -> tuple[Action, ...]:
        """The call's actions in the units of SGD: v = −p/h, so that ``lr`` acts as it does there.

        What a word does at a friction is known, so a new lr costs a few products.

        Args:
            first: whether the parameters have not been moved before.

        Example:
            >>> from colangevin.integrators.scheme import parse
            >>> Dynamics(0.25, 0.5, 0.0, parse("OBA")).actions(first=False)
            (Impulse(decay=0.5, weight=1.0, scale=None), Drift(step=-0.25, cold=True))
        """
        lr, decay, temperature, scheme = self
        if decay == 0.0 and self.is_overdamped:
            spread = _root(2.0 * temperature * lr) if temperature else None
            return (Overdamped(lr, spread, temperature == 0.0),)
        # At lr = 0 (a schedule's end) nothing moves, and noise in units of 1/h has no meaning.
        moving = isinstance(lr, Tensor) or lr > FAINT
        noise: Scalar | None = None
        if isinstance(lr, Tensor) and temperature:
            noise = (temperature / lr).sqrt()
            noise = torch.where(noise.isfinite(), noise, 0.0)
        elif moving and temperature:
            noise = math.sqrt(temperature / lr) or None
        actions: list[Action] = []
        for move in damped(scheme, first, decay):
            if type(move) is Impulse:
                kept, weight, scale = move
                own = None if noise is None or not scale else -noise * scale
                actions.append(Impulse(kept, weight, own))
            elif moving:
                actions.append(Drift(-lr * move[0], temperature == 0.0))
        return tuple(actions)


def _root(square: Scalar) -> Scalar | None:
    """The weight of the noise, of which there is none where it is 0."""
    return square.sqrt() if isinstance(square, Tensor) else math.sqrt(square) or None


def direction(gradient: Tensor, position: Tensor, weight_decay: Scalar) -> Tensor:
    """What B kicks with: the gradient, and the weight decay's share of the weights.

    Example:
        >>> direction(torch.ones(1), torch.full((1,), 2.0), 0.1)
        tensor([1.2000])
    """
    if not isinstance(weight_decay, Tensor) and weight_decay == 0.0:
        return gradient
    return add_scaled(gradient, position, weight_decay)


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
        cls, dynamics: Dynamics, weight_decay: Scalar, first: bool, share: tuple[int, int] = (0, 1)
    ) -> Recipe:
        """The recipe of a group's dynamics.

        Args:
            dynamics: the group's settings.
            weight_decay: of the group.
            first: whether the parameters have not been moved before.
            share: which of how many equal stretches of the call.

        Example:
            >>> from colangevin.integrators.scheme import parse
            >>> Recipe.of(Dynamics(0.25, 0.5, 0.0, parse("OBA")), 0.0, first=False).actions
            (Impulse(decay=0.5, weight=1.0, scale=None), Drift(step=-0.25, cold=True))
        """
        actions = dynamics.actions(first)
        if share[1] > 1:
            actions = stretch(actions, *share)
        return cls(actions, not dynamics.is_overdamped, weight_decay)

    def spread(self, shape: Callable[[Tensor], Tensor]) -> Recipe:
        """The recipe with its tensors, one number per member, in the shape of a batch."""

        def put(value: Any) -> Any:
            return shape(value) if isinstance(value, Tensor) else value

        actions: list[Any] = [type(action)(*map(put, action)) for action in self.actions]
        return Recipe(tuple(actions), self.momentum, put(self.weight_decay))


def joined(recipes: Sequence[Recipe]) -> Recipe:
    """The recipes of an ensemble's members as one.

    Raises:
        ValueError: if the members' steps are of different kinds.

    Example:
        >>> one, two = Recipe((Drift(-0.1),), True), Recipe((Drift(-0.2),), True)
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


# --- stretches: what a slow group does while fast ones make their steps ---------------------------


def stretch(actions: Sequence[T], index: int, parts: int) -> tuple[T, ...]:
    """The ``index``-th of ``parts`` equal stretches of a call; together they are the call.

    Only drifts take time. They are cut where a stretch ends, and whatever stands between two
    drifts acts in the stretch that reaches its place: for OBA the first one makes the whole
    impulse and each makes 1/parts of the drift, as algorithm 5.1 asks. An overdamped step
    becomes ``parts`` Euler–Maruyama steps of 1/parts of its length, with noise of their own,
    which has the same variance in all.

    Args:
        actions: what the whole call does, as moves or with their numbers.
        index: from 0 to parts − 1.
        parts: number of stretches.

    Example:
        >>> oba = (Impulse(0.9, 1.0, None), Drift(-0.5))
        >>> stretch(oba, 0, 2)
        (Impulse(decay=0.9, weight=1.0, scale=None), Drift(step=-0.25))
        >>> stretch(oba, 1, 2)
        (Drift(step=-0.25),)
    """
    if parts == 1:
        return tuple(actions)
    length = sum(abs(float(a[0])) for a in actions if isinstance(a, Drift)) / parts
    chosen: list[T] = []
    walked = 0.0
    for action in actions:
        if isinstance(action, Drift):
            way = float(action[0])
            share = _overlap(walked, walked + abs(way), index, length)
            if share > ROUNDING * length:
                chosen.append(Drift(math.copysign(share, way), action.cold))
            walked += abs(way)
        elif isinstance(action, Overdamped):
            scale = None if action.scale is None else action.scale / math.sqrt(parts)
            chosen.append(Overdamped(action.step / parts, scale, action.cold))
        elif _place(walked, length, parts) == index:
            chosen.append(action)
    return tuple(chosen)


def _overlap(start: float, end: float, index: int, length: float) -> float:
    """How much of a drift from ``start`` to ``end`` lies in a stretch."""
    return min(end, (index + 1) * length) - max(start, index * length)


def _place(walked: float, length: float, parts: int) -> int:
    """The stretch in which something acts that stands after a way of ``walked``."""
    if length == 0.0:
        return 0
    return min(int(walked / length + ROUNDING), parts - 1)
