"""One call's worth of dynamics: moves with their numbers, applied to a state."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from torch import Tensor

from colangevin.constraints.base import Constraint, Draw, State
from colangevin.integrators import pieces
from colangevin.integrators.scheme import Drift, Move, Scheme


class DriftBy(NamedTuple):
    """A with its time."""

    step: float


class ImpulseBy(NamedTuple):
    """B and O with their weights; a weight of 0 leaves that part out."""

    decay: float
    weight: float
    scale: float


class OverdampedBy(NamedTuple):
    """The Euler–Maruyama step with its weights."""

    step: float
    scale: float


Action: TypeAlias = "DriftBy | ImpulseBy | OverdampedBy"


class Dynamics(NamedTuple):
    """The physical settings of a parameter group.

    Attributes:
        lr: h² of an underdamped scheme, h of the overdamped one.
        decay: e^{−γh}, the momentum of SGD.
        temperature: τ.
        scheme: the word, read.
    """

    lr: float
    decay: float
    temperature: float
    scheme: Scheme

    @property
    def is_overdamped(self) -> bool:
        """No memory of the momentum, in a word that has no limit of its own."""
        return self.decay == 0.0 and self.scheme.single

    def actions(self, first: bool) -> tuple[Action, ...]:
        """The call's actions in the units of SGD: v = −p/h, so that ``lr`` acts as it does there.

        Args:
            first: whether the parameters have not been moved before.

        Example:
            >>> from colangevin.integrators.scheme import parse
            >>> Dynamics(0.25, 0.5, 0.0, parse("OBA")).actions(first=False)
            (ImpulseBy(decay=0.5, weight=1.0, scale=0.0), DriftBy(step=-0.25))
        """
        if self.is_overdamped:
            return (OverdampedBy(self.lr, math.sqrt(2.0 * self.temperature * self.lr)),)
        moves = self.scheme.first if first else self.scheme.moves
        # At lr = 0 (a schedule's end) nothing moves, and noise in units of 1/h has no meaning.
        noise = -math.sqrt(self.temperature / self.lr) if self.lr > 0.0 else 0.0
        return tuple(self._action(move, noise) for move in moves)

    def _action(self, move: Move, noise: float) -> Action:
        if isinstance(move, Drift):
            return DriftBy(-self.lr * move.fraction)
        decay, weight, scale = move.coefficients(self.decay)
        return ImpulseBy(decay, weight, scale * noise if noise else 0.0)


def advance(
    constraint: Constraint,
    state: State,
    gradient: Tensor,
    actions: Sequence[Action],
    draw: Draw | None,
) -> State:
    """Apply the actions one after the other; ``draw`` is asked only where there is noise.

    Example:
        >>> import torch
        >>> from colangevin.constraints import Unconstrained
        >>> state = State(torch.zeros(1), torch.zeros(1))
        >>> moves = (ImpulseBy(0.5, 1.0, 0.0), DriftBy(-0.25))
        >>> advance(Unconstrained(), state, torch.ones(1), moves, None).position
        tensor([-0.2500])
    """
    for action in actions:
        if isinstance(action, DriftBy):
            if action.step != 0.0:
                state = pieces.drift(constraint, state, action.step)
        elif isinstance(action, ImpulseBy):
            state = pieces.impulse(
                constraint,
                state,
                gradient if action.weight != 0.0 else None,
                action.decay,
                action.weight,
                action.scale,
                draw if action.scale != 0.0 else None,
            )
        else:
            noisy = draw if action.scale != 0.0 else None
            state = pieces.overdamped(
                constraint, state, gradient, action.step, action.scale, noisy
            )
    return state
