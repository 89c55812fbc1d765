"""Scheme words run literally, and the geometries that need no formula of their own.

Slow on purpose: this is the oracle, in float64, that the fast implementation is compared with.
Equation numbers are those of the thesis. Every noise variable is an argument.

A state is a tuple of positions followed by as many momenta: ``(q, p)``, or with a slack
``(theta, xi, p_theta, p_xi)``. Pieces return new tensors and never write to their arguments.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.autograd.functional import jacobian

State = tuple[Tensor, ...]
Constraint = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Pieces:
    """The pieces of (4.14) on one geometry, and the overdamped step (4.41) or (4.42).

    ``a(state, h)``, ``b(state, gradient, h)``, ``o(state, h, friction, temperature, noise)``,
    ``overdamped(state, gradient, h, temperature, noise)``, with ``noise`` one standard normal
    tensor per momentum. The overdamped step carries the momenta along untouched.
    ``position(state)`` is what the gradient is a function of, and has the gradient's shape.
    """

    a: Callable[[State, float], State]
    b: Callable[[State, Tensor, float], State]
    o: Callable[[State, float, float, float, State], State]
    overdamped: Callable[[State, Tensor, float, float, State], State]
    residual: Callable[[State], Tensor]
    cotangency: Callable[[State], Tensor]
    position: Callable[[State], Tensor]


NoiseFn = Callable[[State], State]


def positions(state: State) -> State:
    return state[: len(state) // 2]


def momenta(state: State) -> State:
    return state[len(state) // 2 :]


def flip_momentum(state: State) -> State:
    return positions(state) + tuple(-p for p in momenta(state))


def zero_noise(state: State) -> State:
    return tuple(torch.zeros_like(p) for p in momenta(state))


def gaussian_noise(generator: torch.Generator) -> NoiseFn:
    """Standard normal noise, one tensor per momentum, drawn in the order of the momenta."""

    def draw(state: State) -> State:
        return tuple(
            torch.randn(p.shape, dtype=p.dtype, generator=generator) for p in momenta(state)
        )

    return draw


def run_word(
    word: str,
    pieces: Pieces,
    state: State,
    gradient_fn: Callable[[Tensor], Tensor],
    step_size: float,
    friction: float = 0.0,
    temperature: float = 0.0,
    noise_fn: NoiseFn = zero_noise,
    delayed: bool = False,
) -> State:
    """One step of a scheme word: its letters one after the other, from left to right.

    A letter that occurs k times takes 1/k of the step each time, as in (2.54). Each B evaluates
    the gradient afresh at the current position; with ``delayed`` all B's use the gradient at the
    start of the step. Each O draws its own noise.
    """
    early_gradient = gradient_fn(pieces.position(state)) if delayed else None
    for letter in word:
        h = step_size / word.count(letter)
        if letter == "A":
            state = pieces.a(state, h)
        elif letter == "B":
            fresh = early_gradient is None
            gradient = gradient_fn(pieces.position(state)) if fresh else early_gradient
            state = pieces.b(state, gradient, h)
        elif letter == "O":
            state = pieces.o(state, h, friction, temperature, noise_fn(state))
        else:
            raise ValueError(f"unknown letter {letter!r} in the word {word!r}")
    return state


def run_overdamped(
    pieces: Pieces,
    state: State,
    gradient_fn: Callable[[Tensor], Tensor],
    step_size: float,
    temperature: float = 0.0,
    noise_fn: NoiseFn = zero_noise,
) -> State:
    """One overdamped step with the gradient at the current position."""
    gradient = gradient_fn(pieces.position(state))
    return pieces.overdamped(state, gradient, step_size, temperature, noise_fn(state))


def sgd_step(
    theta: Tensor,
    buffer: Tensor | None,
    gradient: Tensor,
    lr: float,
    momentum: float = 0.0,
    weight_decay: float = 0.0,
) -> tuple[Tensor, Tensor | None]:
    """The recursion of ``torch.optim.SGD``; the first buffer is the first gradient."""
    gradient = gradient + weight_decay * theta
    if momentum == 0.0:
        return theta - lr * gradient, None
    buffer = gradient if buffer is None else momentum * buffer + gradient
    return theta - lr * buffer, buffer


def ornstein_uhlenbeck(p: Tensor, h: float, friction: float, tau: float, noise: Tensor) -> Tensor:
    """(2.53c) with unit mass: e^{-gamma h} p + sqrt(tau (1 - e^{-2 gamma h})) R."""
    return (
        math.exp(-friction * h) * p + math.sqrt(tau * (1.0 - math.exp(-2.0 * friction * h))) * noise
    )


def euler_maruyama(q: Tensor, gradient: Tensor, h: float, tau: float, noise: Tensor) -> Tensor:
    """(2.51)."""
    return q - h * gradient + math.sqrt(2.0 * tau * h) * noise


def unconstrained_a(q: Tensor, p: Tensor, h: float) -> State:
    """(2.53a) with unit mass."""
    return q + h * p, p


def unconstrained_b(q: Tensor, p: Tensor, gradient: Tensor, h: float) -> State:
    """(2.53b)."""
    return q, p - h * gradient


def unconstrained_pieces() -> Pieces:
    """State ``(q, p)``."""
    return Pieces(
        a=lambda s, h: unconstrained_a(*s, h),
        b=lambda s, gradient, h: unconstrained_b(*s, gradient, h),
        o=lambda s, h, friction, tau, r: (s[0], ornstein_uhlenbeck(s[1], h, friction, tau, r[0])),
        overdamped=lambda s, grad, h, tau, r: (euler_maruyama(s[0], grad, h, tau, r[0]), s[1]),
        residual=lambda s: torch.zeros(0, dtype=s[0].dtype),
        cotangency=lambda s: torch.zeros(0, dtype=s[0].dtype),
        position=lambda s: s[0],
    )


def massive_a(q: Tensor, p: Tensor, h: float, mass: Tensor) -> State:
    """(2.53a): q + h M^{-1} p, for a diagonal M."""
    return q + h * p / mass, p


def massive_o(
    q: Tensor, p: Tensor, h: float, friction: float, tau: float, noise: Tensor, mass: Tensor
) -> State:
    """(2.53c): e^{-gamma h} p + sqrt(tau (1 - e^{-2 gamma h})) M^{1/2} R."""
    amplitude = math.sqrt(tau * (1.0 - math.exp(-2.0 * friction * h)))
    return q, math.exp(-friction * h) * p + amplitude * torch.sqrt(mass) * noise


def massive_overdamped(
    q: Tensor, gradient: Tensor, h: float, tau: float, noise: Tensor, mass: Tensor
) -> Tensor:
    """(2.51) with a mass matrix: q - h M^{-1} G + sqrt(2 tau h) M^{-1/2} R."""
    return q - h * gradient / mass + math.sqrt(2.0 * tau * h) * noise / torch.sqrt(mass)


def massive_pieces(mass: Tensor) -> Pieces:
    """State ``(q, p)``; the masses are the diagonal of M."""
    return Pieces(
        a=lambda s, h: massive_a(*s, h, mass),
        b=lambda s, gradient, h: unconstrained_b(*s, gradient, h),
        o=lambda s, h, friction, tau, r: massive_o(*s, h, friction, tau, r[0], mass),
        overdamped=lambda s, grad, h, tau, r: (
            massive_overdamped(s[0], grad, h, tau, r[0], mass),
            s[1],
        ),
        residual=lambda s: torch.zeros(0, dtype=s[0].dtype),
        cotangency=lambda s: torch.zeros(0, dtype=s[0].dtype),
        position=lambda s: s[0],
    )


def general_jacobian(g: Constraint, q: Tensor, create_graph: bool = False) -> Tensor:
    """G(q) = nabla_q^T g(q), m x d, for g from R^d to R^m."""
    return jacobian(g, q, create_graph=create_graph)


def general_projector(g: Constraint, q: Tensor) -> Tensor:
    """Pi(q) = I - G^T (G G^T)^{-1} G, (4.23): tangential."""
    jac = general_jacobian(g, q)
    return torch.eye(len(q), dtype=q.dtype) - jac.T @ torch.linalg.inv(jac @ jac.T) @ jac


def general_oblique(g: Constraint, q_bar: Tensor, q_n: Tensor, iterations: int = 50) -> Tensor:
    """The q = q_bar - nabla g(q_n) lambda with g(q) = 0 of (4.41), by Newton on lambda.

    Convergence is quadratic, so one update from a residual of 1e-9 reaches rounding.
    """
    normals = general_jacobian(g, q_n)
    lagrange = torch.zeros(len(normals), dtype=q_bar.dtype)
    for _ in range(iterations):
        q = q_bar - normals.T @ lagrange
        residual = g(q)
        lagrange = lagrange + torch.linalg.solve(general_jacobian(g, q) @ normals.T, residual)
        if residual.abs().max() < 1e-9:
            return q_bar - normals.T @ lagrange
    raise RuntimeError("Newton for the oblique projection did not converge")


def general_orthogonal(g: Constraint, q_bar: Tensor, iterations: int = 50) -> Tensor:
    """The q = q_bar - nabla g(q) lambda with g(q) = 0 of (4.42), by Newton on (q, lambda).

    It starts from (q_bar, 0), so it is for points near the manifold.
    """
    d = len(q_bar)

    def system(x: Tensor) -> Tensor:
        q, lagrange = x[:d], x[d:]
        normals = general_jacobian(g, q, create_graph=True)
        return torch.cat([q - q_bar + normals.T @ lagrange, g(q)])

    x = torch.cat([q_bar, torch.zeros_like(g(q_bar))])
    for _ in range(iterations):
        residual = system(x).detach()
        x = x - torch.linalg.solve(jacobian(system, x), residual)
        if residual.abs().max() < 1e-9:
            return x[:d]
    raise RuntimeError("Newton for the orthogonal projection did not converge")


def general_a(g: Constraint, q: Tensor, p: Tensor, h: float) -> State:
    """RATTLE, (4.56) and (4.57) for a general g: p_half = p - nabla g(q_n) lambda / h."""
    q_bar = q + h * p
    q_next = general_oblique(g, q_bar, q)
    p_half = p + (q_next - q_bar) / h
    return q_next, general_projector(g, q_next) @ p_half


def general_b(g: Constraint, q: Tensor, p: Tensor, gradient: Tensor, h: float) -> State:
    """(4.44) with the tangential projector."""
    return q, general_projector(g, q) @ (p - h * gradient)


def general_o(
    g: Constraint, q: Tensor, p: Tensor, h: float, friction: float, tau: float, noise: Tensor
) -> State:
    """(4.45) with the tangential projector."""
    return q, general_projector(g, q) @ ornstein_uhlenbeck(p, h, friction, tau, noise)


def circle_constraint(radius: float | Tensor) -> Constraint:
    """(4.2) on q = (theta, xi), m thetas and then m slacks."""
    return lambda q: q[: len(q) // 2] ** 2 + q[len(q) // 2 :] ** 2 - radius**2


def orthogonal_constraint(rows: int, columns: int) -> Constraint:
    """The s(s+1)/2 distinct entries of Q^T Q - I, (4.50), on the flattened Q."""
    i, j = torch.triu_indices(columns, columns)

    def g(q: Tensor) -> Tensor:
        matrix = q.reshape(rows, columns)
        return (matrix.T @ matrix - torch.eye(columns, dtype=q.dtype))[i, j]

    return g


def with_slack(g: Constraint, slack: int) -> Constraint:
    """g(theta) <= 0 as g(theta) + xi^2 = 0 on q = (theta, xi); ``slack`` is the length of xi."""
    return lambda q: g(q[: len(q) - slack]) + q[len(q) - slack :] ** 2


def general_pieces(g: Constraint, slack: int = 0, projection: str = "oblique") -> Pieces:
    """State ``(q, p)`` of flat vectors; the last ``slack`` entries of q have no gradient."""

    def pad(gradient: Tensor) -> Tensor:
        return torch.cat([gradient, torch.zeros(slack, dtype=gradient.dtype)])

    def overdamped(s: State, gradient: Tensor, h: float, tau: float, noise: State) -> State:
        q_bar = euler_maruyama(s[0], pad(gradient), h, tau, noise[0])
        oblique = projection == "oblique"
        return (general_oblique(g, q_bar, s[0]) if oblique else general_orthogonal(g, q_bar)), s[1]

    return Pieces(
        a=lambda s, h: general_a(g, *s, h),
        b=lambda s, gradient, h: general_b(g, *s, pad(gradient), h),
        o=lambda s, h, friction, tau, noise: general_o(g, *s, h, friction, tau, noise[0]),
        overdamped=overdamped,
        residual=lambda s: g(s[0]),
        cotangency=lambda s: general_jacobian(g, s[0]) @ s[1],
        position=lambda s: s[0][: len(s[0]) - slack],
    )
