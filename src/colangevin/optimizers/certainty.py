"""Steps that are certain not to fail, so that they need no memory besides the weights' own."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from colangevin.constraints import Constraint, State
from colangevin.constraints.multiplier import largest
from colangevin.integrators.dynamics import Action, DriftBy, ImpulseBy

LIMIT = 1e30
"""Numbers below it can be added without an overflow, in float32 too."""
EXTREME = 10.0
"""No standard normal number is drawn beyond it."""


def is_certain(
    constraint: Constraint,
    state: State,
    gradient: Tensor,
    actions: Sequence[Action],
    weight_decay: float = 0.0,
) -> bool:
    """Whether nothing can go wrong in a step, if only an overflow makes the geometry fail.

    Example:
        >>> import torch
        >>> from colangevin.constraints import Orthogonal
        >>> state, slope = State(torch.eye(2)[None], torch.zeros(1, 2, 2)), torch.ones(1, 2, 2)
        >>> actions = (ImpulseBy(0.9, 1.0, None), DriftBy(-0.1))
        >>> is_certain(Orthogonal(), state, slope, actions)
        True
        >>> is_certain(Orthogonal(), state, slope / 0, actions)
        False
    """
    if not constraint.looks(state.position.device):
        return True
    position = _bound(state.position, state.slack)
    momentum = _bound(state.momentum, state.slack_momentum)
    slope = largest(gradient) + abs(weight_decay) * position
    return reach(actions, position, momentum, slope) < LIMIT


def _bound(*parts: Tensor | None) -> float:
    return sum(largest(part) for part in parts if part is not None)


def reach(actions: Sequence[Action], position: float, momentum: float, gradient: float) -> float:
    """A bound of all numbers in a step, from those of its beginning; NaN if one of them is.

    Example:
        >>> reach((ImpulseBy(0.5, 1.0, None), DriftBy(-0.1)), 1.0, 2.0, 4.0)
        49.5
    """
    bound = position + momentum + gradient
    for action in actions:
        if isinstance(action, DriftBy):
            position += abs(float(action.step)) * momentum
            # The new momentum is the way that was gone, over the step.
            momentum += 2.0 * position / abs(float(action.step))
        elif isinstance(action, ImpulseBy):
            momentum *= abs(float(action.decay))
            momentum += abs(float(action.weight or 0.0)) * gradient
            momentum += abs(float(action.scale or 0.0)) * EXTREME
        else:
            position += abs(float(action.step)) * gradient
            position += abs(float(action.scale or 0.0)) * EXTREME
        bound += position + momentum
    return bound
