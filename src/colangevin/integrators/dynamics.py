"""The dynamics of one call: moves with their numbers, applied to a state."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from torch import Tensor

from colangevin.constraints.base import Constraint, Draw, Scalar, State
from colangevin.integrators import pieces
from colangevin.integrators.scheme import Drift, Impulse, Move, Piece, Scheme

FAINT = 1e-30
"""Up to this lr a step is below any rounding, while 1/lr would overflow float32."""


class DriftBy(NamedTuple):
    """A with its time."""

    step: Scalar


class ImpulseBy(NamedTuple):
    """B and O with the weights of old momentum, gradient and noise; None leaves a part out."""

    decay: Scalar
    weight: Scalar | None
    scale: Scalar | None


class OverdampedBy(NamedTuple):
    """The Euler–Maruyama step with the weights of gradient and noise (None: no noise)."""

    step: Scalar
    scale: Scalar | None


NOTHING = ImpulseBy(1.0, None, None)
"""O without friction, as in Verlet's method."""

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
        return self.decay == 0.0 and not self.scheme.has_limit

    def actions(self, first: bool) -> tuple[Action, ...]:
        """The call's actions in the units of SGD: v = −p/h, so that ``lr`` acts as it does there.

        Args:
            first: whether the parameters have not been moved before.

        Example:
            >>> from colangevin.integrators.scheme import parse
            >>> Dynamics(0.25, 0.5, 0.0, parse("OBA")).actions(first=False)
            (ImpulseBy(decay=0.5, weight=1.0, scale=None), DriftBy(step=-0.25))
        """
        if self.is_overdamped:
            return (OverdampedBy(self.lr, math.sqrt(2.0 * self.temperature * self.lr) or None),)
        moves = self._first() if first else self.scheme.moves
        moving = self.lr > FAINT
        kept = (move for move in moves if moving or isinstance(move, Impulse))
        actions = (self._action(move) for move in kept)
        return tuple(action for action in actions if action != NOTHING)

    def _first(self) -> tuple[Move, ...]:
        """The moves of the first call, from momentum 0.

        In the limit of infinite friction the momentum is nothing but the last O's noise: a
        first call that draws it makes (2.56) hold from the first step on.
        """
        opening, *rest = self.scheme.moves
        if self.decay == 0.0 and isinstance(opening, Impulse):
            return (Impulse((Piece("O", 1.0), *opening.pieces)), *rest)
        return self.scheme.first

    def _action(self, move: Move) -> Action:
        if isinstance(move, Drift):
            return DriftBy(-self.lr * move.fraction)
        assert isinstance(move, Impulse)  # a word of Langevin dynamics has no E
        decay, weight, scale = move.coefficients(self.decay)
        # At lr = 0 (a schedule's end) nothing moves, and noise in units of 1/h has no meaning.
        noise = -scale * math.sqrt(self.temperature / self.lr) if self.lr > FAINT else 0.0
        return ImpulseBy(decay, weight or None, noise or None)


def advance(
    constraint: Constraint,
    state: State,
    gradient: Tensor,
    actions: Sequence[Action],
    draw: Draw | None,
    *,
    in_place: bool = False,
) -> State:
    """Apply the actions one after the other; ``draw`` is asked only where there is noise.

    With ``in_place`` the new state is written over the tensors of the old one.

    Example:
        >>> import torch
        >>> from colangevin.constraints import Unconstrained
        >>> state = State(torch.zeros(1), torch.zeros(1))
        >>> moves = (ImpulseBy(0.5, 1.0, None), DriftBy(-0.25))
        >>> advance(Unconstrained(), state, torch.ones(1), moves, None).position
        tensor([-0.2500])
    """
    for action in actions:
        if isinstance(action, DriftBy):
            state = pieces.drift(constraint, state, action.step, in_place=in_place)
        elif isinstance(action, ImpulseBy):
            state = pieces.impulse(
                constraint,
                state,
                None if action.weight is None else gradient,
                action.decay,
                0.0 if action.weight is None else action.weight,
                0.0 if action.scale is None else action.scale,
                None if action.scale is None else draw,
                in_place=in_place,
            )
        else:
            scale = 0.0 if action.scale is None else action.scale
            noisy = None if action.scale is None else draw
            state = pieces.overdamped(
                constraint, state, gradient, action.step, scale, noisy, in_place=in_place
            )
    return state
