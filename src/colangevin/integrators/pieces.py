"""The pieces A, B and O of the splitting (4.14), as pure functions of a state.

They hold for any unit of momentum: physical ones (p, step h), or those of ``torch.optim.SGD``
(v = −p/h), in which a drift takes −h², a kick −1 and the noise −1/h of the physical factor.
"""

from __future__ import annotations

from torch import Tensor

from colangevin.constraints.base import Constraint, Draw, Scalar, State, plus


def drift(constraint: Constraint, state: State, step: Scalar) -> State:
    """A: follow the geodesic of the momentum for the time ``step``.

    Example:
        >>> import torch
        >>> from colangevin.constraints import Unconstrained
        >>> drift(Unconstrained(), State(torch.zeros(1), torch.ones(1)), 0.5).position
        tensor([0.5000])
    """
    return constraint.drift(state, step)


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

    Example:
        >>> import torch
        >>> from colangevin.constraints import Unconstrained
        >>> state = State(torch.zeros(1), torch.ones(1))
        >>> impulse(Unconstrained(), state, torch.ones(1), 0.5, -0.1, 0.0, None).momentum
        tensor([0.4000])
    """
    assert state.momentum is not None
    change = constraint.impulse(state, gradient, weight, scale, draw)
    slack = state.slack_momentum
    if slack is not None:
        slack = slack * decay if change.slack is None else plus(change.slack, slack, decay)
    return state._replace(momentum=plus(change.main, state.momentum, decay), slack_momentum=slack)


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
) -> State:
    """Euler–Maruyama, then projection (4.41, 4.42): q̄ = q − hG + scale · R, scale = sqrt(2τh).

    Example:
        >>> import torch
        >>> from colangevin.constraints import Unconstrained
        >>> state = State(torch.zeros(1))
        >>> overdamped(Unconstrained(), state, torch.ones(1), 0.1, 0.0, None).position
        tensor([-0.1000])
    """
    position = plus(state.position, gradient, -step)
    slack = state.slack
    if draw is not None:
        position = plus(position, draw(position), scale)
        slack = None if slack is None else plus(slack, draw(slack), scale)
    return constraint.project(state, position, slack)
