"""The pieces A, B and O of the splitting (4.14) and the Euler–Maruyama step, on a state.

They hold for any unit of momentum: physical ones (p, step h), or those of ``torch.optim.SGD``
(v = −p/h), in which a drift takes −h², a kick −1 and the noise −1/h of the physical factor.

All may write over the tensors of the state that they are given, and return the new state. To keep
the old one, give them a copy: ``advance(constraint, state.map(torch.clone), ...)``.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from colangevin.constraints.base import Constraint, Draw, Scalar, State, add_scaled, match_dims
from colangevin.integrators.scheme import Action, Drift, Impulse


def advance(
    constraint: Constraint,
    state: State,
    gradient: Tensor,
    actions: Sequence[Action],
    draw: Draw | None,
) -> State:
    """Apply the actions one after the other; ``draw`` is asked only where there is noise.

    The tensors of ``state`` may be written over; with ``state.map(torch.clone)`` they are not.

    Example:
        >>> import torch
        >>> from colangevin.constraints import Unconstrained
        >>> state = State(torch.zeros(1), torch.zeros(1))
        >>> moves = (Impulse(0.5, 1.0, None), Drift(-0.25))
        >>> advance(Unconstrained(), state, torch.ones(1), moves, None).position
        tensor([-0.2500])
    """
    for action in actions:
        if isinstance(action, Drift):
            state = drift(constraint, state, *action)
            continue
        scale = 0.0 if action.scale is None else action.scale
        noisy = None if action.scale is None else draw
        if isinstance(action, Impulse):
            kicks, weight = (None, 0.0) if action.weight is None else (gradient, action.weight)
            state = impulse(constraint, state, kicks, action.decay, weight, scale, noisy)
        else:
            state = overdamped(constraint, state, gradient, action.step, scale, noisy, action.cold)
    return state


def drift(constraint: Constraint, state: State, step: Scalar, cold: bool | Tensor = False) -> State:
    """A: follow the geodesic of the momentum for the time ``step``.

    Args:
        constraint: the geometry.
        state: where it starts.
        step: the time.
        cold: whether τ = 0, or a tensor in the shape of the step that is 1 where it is.

    Example:
        >>> import torch
        >>> from colangevin.constraints import Unconstrained
        >>> drift(Unconstrained(), State(torch.zeros(1), torch.ones(1)), 0.5).position
        tensor([0.5000])
    """
    if cold is False:
        return constraint.drift(state, step)
    if not (isinstance(cold, Tensor) and constraint.walls):
        return constraint.slide(state, step)
    warm = constraint.drift(state.map(torch.clone), step)
    return _chosen(cold, constraint.slide(state, step), warm)


def _chosen(mask: Tensor, one: State, other: State) -> State:
    """The first state where a mask is not 0: of geometries with walls, which have no slack."""
    position, momentum = torch.where(mask != 0, one.position, other.position), one.momentum
    if momentum is not None and other.momentum is not None:
        momentum = torch.where(mask != 0, momentum, other.momentum)
    return one._replace(position=position, momentum=momentum)


def impulse(
    constraint: Constraint,
    state: State,
    gradient: Tensor | None,
    decay: Scalar,
    weight: Scalar,
    scale: Scalar,
    draw: Draw | None,
) -> State:
    """p ← decay · p + Π(weight · G + scale · R): any run of B and O between two A.

    Where momenta are kept modulo the normal space, Π is left out.

    Example:
        >>> import torch
        >>> from colangevin.constraints import Unconstrained
        >>> state = State(torch.zeros(1), torch.ones(1))
        >>> impulse(Unconstrained(), state, torch.ones(1), 0.5, -0.1, 0.0, None).momentum
        tensor([0.4000])
    """
    momentum, slack = state.momentum, state.slack_momentum
    assert momentum is not None
    if constraint.quotient:
        return _accumulate(state, gradient, decay, weight, scale, draw)
    change = constraint.impulse(state, gradient, weight, scale, draw)
    momentum = add_scaled(change.main, momentum, decay, out=momentum)
    if slack is not None and change.slack is None:
        slack = slack.mul_(match_dims(decay, slack))
    elif slack is not None and change.slack is not None:
        slack = add_scaled(change.slack, slack, decay, out=slack)
    return state._replace(momentum=momentum, slack_momentum=slack)


def _accumulate(
    state: State,
    gradient: Tensor | None,
    decay: Scalar,
    weight: Scalar,
    scale: Scalar,
    draw: Draw | None,
) -> State:
    """p ← decay · p + weight · G + scale · R."""
    momentum, slack = state.momentum, state.slack_momentum
    assert momentum is not None
    if gradient is not None and not isinstance(weight, Tensor) and weight == 1.0:
        momentum = add_scaled(gradient, momentum, decay, out=momentum)
    else:
        momentum = momentum.mul_(decay)
        if gradient is not None:
            momentum = add_scaled(momentum, gradient, weight, out=momentum)
    if slack is not None:
        slack = slack.mul_(match_dims(decay, slack))
    if draw is not None:
        momentum = add_scaled(momentum, draw(state.position), scale, out=momentum)
        if slack is not None and state.slack is not None:
            slack = add_scaled(slack, draw(state.slack), scale, out=slack)
    return state._replace(momentum=momentum, slack_momentum=slack)


def overdamped(
    constraint: Constraint,
    state: State,
    gradient: Tensor,
    step: Scalar,
    scale: Scalar,
    draw: Draw | None,
    cold: bool | Tensor = False,
) -> State:
    """Euler–Maruyama, then projection (4.41, 4.42): q̄ = q − hG + scale · R, scale = sqrt(2τh).

    Example:
        >>> import torch
        >>> from colangevin.constraints import Unconstrained
        >>> state = State(torch.zeros(1))
        >>> overdamped(Unconstrained(), state, torch.ones(1), 0.1, 0.0, None).position
        tensor([-0.1000])
    """
    position, slack = constraint.euler(state, gradient, step, scale, draw)
    if cold is False:
        return constraint.project(state, position, slack)
    if not (isinstance(cold, Tensor) and constraint.walls):
        return constraint.land(state, position, slack)
    warm = constraint.project(state.map(torch.clone), position.clone(), slack)
    return _chosen(cold, constraint.land(state, position, slack), warm)
