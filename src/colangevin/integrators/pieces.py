"""The pieces A, B and O of the splitting (4.14), as pure functions of a state.

They hold for any unit of momentum: physical ones (p, step h), or those of ``torch.optim.SGD``
(v = −p/h), in which a drift takes −h², a kick −1 and the noise −1/h of the physical factor.
"""

from __future__ import annotations

import torch
from torch import Tensor

from colangevin.constraints.base import Constraint, Draw, Scalar, State, fitting, overwrite, plus


def drift(constraint: Constraint, state: State, step: Scalar, *, in_place: bool = False) -> State:
    """A: follow the geodesic of the momentum for the time ``step``.

    Example:
        >>> import torch
        >>> from colangevin.constraints import Unconstrained
        >>> drift(Unconstrained(), State(torch.zeros(1), torch.ones(1)), 0.5).position
        tensor([0.5000])
    """
    if in_place:
        return constraint.drift_(state, step)
    return constraint.drift(state.map(torch.clone), step)  # it may write over what it is given


def impulse(
    constraint: Constraint,
    state: State,
    gradient: Tensor | None,
    decay: Scalar,
    weight: Scalar,
    scale: Scalar,
    draw: Draw | None,
    *,
    in_place: bool = False,
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
    assert state.momentum is not None
    if constraint.quotient:
        return _accumulate(state, gradient, decay, weight, scale, draw, in_place)
    change = constraint.impulse(state, gradient, weight, scale, draw)
    slack = state.slack_momentum
    if slack is not None:
        if change.slack is None:
            slack = slack * fitting(decay, slack)
        else:
            slack = plus(change.slack, slack, decay)
    momentum = plus(change.main, state.momentum, decay, state.momentum if in_place else None)
    new = state._replace(momentum=momentum, slack_momentum=slack)
    return overwrite(state, new) if in_place else new


def _accumulate(
    state: State,
    gradient: Tensor | None,
    decay: Scalar,
    weight: Scalar,
    scale: Scalar,
    draw: Draw | None,
    in_place: bool,
) -> State:
    """p ← decay · p + weight · G + scale · R."""
    assert state.momentum is not None
    momentum, slack = state.momentum, state.slack_momentum
    out, slack_out = (momentum, slack) if in_place else (None, None)
    if gradient is not None and not isinstance(weight, Tensor) and weight == 1.0:
        momentum = plus(gradient, momentum, decay, out)
    else:
        momentum = torch.mul(momentum, decay, out=out)
        if gradient is not None:
            momentum = plus(momentum, gradient, weight, out)
    if slack is not None:
        slack = torch.mul(slack, fitting(decay, slack), out=slack_out)
    if draw is not None:
        momentum = plus(momentum, draw(state.position), scale, out)
        if slack is not None and state.slack is not None:
            slack = plus(slack, draw(state.slack), scale, slack_out)
    return state._replace(momentum=momentum, slack_momentum=slack)


def kick(constraint: Constraint, state: State, gradient: Tensor, step: Scalar) -> State:
    """B: p ← p − hΠG (4.44).

    Example:
        >>> import torch
        >>> from colangevin.constraints import Unconstrained
        >>> kick(Unconstrained(), State(torch.zeros(1), torch.ones(1)), torch.ones(1), 0.1).momentum
        tensor([0.9000])
    """
    return impulse(constraint, state, gradient, 1.0, -step, 0.0, None)


def thermostat(
    constraint: Constraint, state: State, decay: float, temperature: float, draw: Draw | None
) -> State:
    """O: p ← Π(c p + sqrt(τ(1 − c²)) R) with c = e^{−γh} = ``decay`` (4.45).

    Example:
        >>> import torch
        >>> from colangevin.constraints import Unconstrained
        >>> state = State(torch.zeros(1), torch.ones(1))
        >>> thermostat(Unconstrained(), state, 0.5, 0.0, None).momentum
        tensor([0.5000])
    """
    scale = (temperature * (1.0 - decay * decay)) ** 0.5
    return impulse(constraint, state, None, decay, 0.0, scale, draw)


def overdamped(
    constraint: Constraint,
    state: State,
    gradient: Tensor,
    step: Scalar,
    scale: Scalar,
    draw: Draw | None,
    *,
    in_place: bool = False,
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
    if in_place:
        return constraint.project_(state, position, slack)
    return constraint.project(state.map(torch.clone), position, slack)
