"""The sources' formulas for circle, sphere and orthogonality, transcribed literally in float64.

The oracle of the test suite: slow, plain, one formula a function, equation numbers of the thesis.
Scheme words, the unconstrained and the general geometry are in ``reference_words`` and are
re-exported here.
"""

import math

import torch
from torch import Tensor

from reference_walls import *  # noqa: F403
from reference_words import *  # noqa: F403
from reference_words import Pieces, State, euler_maruyama, momenta, ornstein_uhlenbeck, positions

Radius = float | Tensor


# Circle: (theta, xi, p_theta, p_xi), everything elementwise.


def circle_slack(theta: Tensor, radius: Radius) -> Tensor:
    """The slack xi >= 0 with theta^2 + xi^2 = r^2, (4.2)."""
    return torch.sqrt(radius**2 - theta**2)


def circle_angular_speed(
    theta: Tensor, xi: Tensor, p_theta: Tensor, p_xi: Tensor, radius: Radius
) -> Tensor:
    """omega = (xi p_theta - theta p_xi) / r^2 of section 4.7.2.4."""
    return (xi * p_theta - theta * p_xi) / radius**2


def circle_momentum(theta: Tensor, xi: Tensor, omega: Tensor) -> tuple[Tensor, Tensor]:
    """(p_theta, p_xi) = omega (xi, -theta), the inverse of the angular speed."""
    return omega * xi, -omega * theta


def circle_noise(theta: Tensor, xi: Tensor, noise: Tensor, radius: Radius) -> tuple[Tensor, Tensor]:
    """(R_c, R_xi) tangent to the circle, whose O step is omega <- c omega + s R / r."""
    return noise * xi / radius, -noise * theta / radius


def circle_a(
    theta: Tensor, xi: Tensor, p_theta: Tensor, p_xi: Tensor, h: float, radius: Radius
) -> State:
    """(A) of section 4.7.2.4."""
    omega = (xi * p_theta - theta * p_xi) / radius**2
    cos, sin = torch.cos(omega * h), torch.sin(omega * h)
    return (
        cos * theta + sin * xi,
        -sin * theta + cos * xi,
        omega * (-sin * theta + cos * xi),
        -omega * (cos * theta + sin * xi),
    )


def circle_b(
    theta: Tensor,
    xi: Tensor,
    p_theta: Tensor,
    p_xi: Tensor,
    gradient: Tensor,
    h: float,
    radius: Radius,
) -> State:
    """(B) of section 4.7.2.4; its two lines are projected already, in spite of their bars."""
    return (
        theta,
        xi,
        p_theta - h * (1.0 - theta**2 / radius**2) * gradient,
        p_xi + h * theta * xi / radius**2 * gradient,
    )


def circle_o(
    theta: Tensor,
    xi: Tensor,
    p_theta: Tensor,
    p_xi: Tensor,
    h: float,
    friction: float,
    tau: float,
    noise_c: Tensor,
    noise_xi: Tensor,
    radius: Radius,
) -> State:
    """(O) of section 4.7.2.4, with R_c and R_xi given."""
    decay = math.exp(-friction * h)
    amplitude = math.sqrt(tau * (1.0 - math.exp(-2.0 * friction * h)))
    bar_c = decay * p_theta + amplitude * noise_c
    bar_xi = decay * p_xi + amplitude * noise_xi
    return (
        theta,
        xi,
        (1.0 - theta**2 / radius**2) * bar_c - theta * xi / radius**2 * bar_xi,
        -theta * xi * bar_c / radius**2 + (1.0 - xi**2 / radius**2) * bar_xi,
    )


def circle_overdamped(
    theta: Tensor,
    xi: Tensor,
    gradient: Tensor,
    h: float,
    tau: float,
    noise_c: Tensor,
    noise_xi: Tensor,
    radius: Radius,
) -> State:
    """(4.47), with an erratum: printed is alpha = arctan(xi / theta), whose range
    (-pi/2, pi/2) forces theta = r cos(alpha) >= 0. The angle meant is atan2(xi, theta).
    """
    bar_theta = theta - h * gradient + math.sqrt(2.0 * tau * h) * noise_c
    bar_xi = xi + math.sqrt(2.0 * tau * h) * noise_xi
    alpha = torch.atan2(bar_xi, bar_theta)
    return radius * torch.cos(alpha), radius * torch.sin(alpha)


def circle_pieces(radius: Radius) -> Pieces:
    """State ``(theta, xi, p_theta, p_xi)``."""
    return Pieces(
        a=lambda s, h: circle_a(*s, h, radius),
        b=lambda s, gradient, h: circle_b(*s, gradient, h, radius),
        o=lambda s, h, friction, tau, noise: circle_o(*s, h, friction, tau, *noise, radius),
        overdamped=lambda s, gradient, h, tau, noise: (
            circle_overdamped(*s[:2], gradient, h, tau, *noise, radius) + s[2:]
        ),
        residual=lambda s: s[0] ** 2 + s[1] ** 2 - radius**2,
        cotangency=lambda s: 2.0 * (s[0] * s[2] + s[1] * s[3]),
        position=lambda s: s[0],
    )


# Sphere: q has one row per constraint; with a slack the row is (w, xi), without it is w.


def sphere_slack(w: Tensor, radius: Radius) -> Tensor:
    """The slack xi >= 0, one per row, with |w|^2 + xi^2 = r^2, (4.3)."""
    return torch.sqrt(radius**2 - (w**2).sum(dim=1))


def sphere_projector(row: Tensor) -> Tensor:
    """I - G^T H^{-1} G of one row: (4.43), where the tangential projector is the whole Pi and
    not, as printed there and used in (4.44), the Pi_w that is subtracted. G = 2 (w, xi)^T.
    """
    jac = 2.0 * row[None, :]
    return torch.eye(len(row), dtype=row.dtype) - jac.T @ torch.linalg.inv(jac @ jac.T) @ jac


def sphere_project(q: Tensor, p: Tensor) -> Tensor:
    """The projector of each row applied to that row of p."""
    return torch.stack([sphere_projector(row) @ row_p for row, row_p in zip(q, p, strict=True)])


def sphere_a(q: Tensor, p: Tensor, h: float, radius: Radius) -> State:
    """Great circle of each row: the solution of (4.14 A) with |q| = r and speed |p|."""
    r = torch.as_tensor(radius, dtype=q.dtype).expand(len(q))[:, None]
    speed = torch.linalg.vector_norm(p, dim=1, keepdim=True)
    direction = torch.where(speed > 0.0, p / speed, torch.zeros_like(p))
    cos, sin = torch.cos(speed * h / r), torch.sin(speed * h / r)
    return cos * q + sin * r * direction, -sin * speed / r * q + cos * speed * direction


def sphere_b(q: Tensor, p: Tensor, gradient: Tensor, h: float) -> State:
    """(4.44) with the tangential projector; the gradient of a slack column is zero."""
    return q, sphere_project(q, p - h * gradient)


def sphere_o(q: Tensor, p: Tensor, h: float, friction: float, tau: float, noise: Tensor) -> State:
    """(4.45) with the tangential projector."""
    return q, sphere_project(q, ornstein_uhlenbeck(p, h, friction, tau, noise))


def sphere_overdamped(
    q: Tensor, gradient: Tensor, h: float, tau: float, noise: Tensor, radius: Radius
) -> Tensor:
    """(4.42): Euler-Maruyama, then the nearest point of the sphere, row by row."""
    bar = euler_maruyama(q, gradient, h, tau, noise)
    r = torch.as_tensor(radius, dtype=q.dtype).expand(len(q))[:, None]
    return r * bar / torch.linalg.vector_norm(bar, dim=1, keepdim=True)


def sphere_pieces(radius: Radius, equality: bool = False) -> Pieces:
    """State ``(w, p)`` for |w_i| = r, ``(w, xi, p_w, p_xi)`` for |w_i| <= r.

    w is m x d, xi has length m, and ``radius`` is a number or one number per row.
    """

    def join(parts: State) -> Tensor:
        return parts[0] if equality else torch.cat([parts[0], parts[1][:, None]], dim=1)

    def split(q: Tensor) -> State:
        return (q,) if equality else (q[:, :-1], q[:, -1])

    def full(gradient: Tensor) -> Tensor:
        return join((gradient, torch.zeros(len(gradient), dtype=gradient.dtype)))

    def both(s: State) -> tuple[Tensor, Tensor]:
        return join(positions(s)), join(momenta(s))

    def state(pair: State) -> State:
        return split(pair[0]) + split(pair[1])

    return Pieces(
        a=lambda s, h: state(sphere_a(*both(s), h, radius)),
        b=lambda s, gradient, h: state(sphere_b(*both(s), full(gradient), h)),
        o=lambda s, h, friction, tau, noise: state(
            sphere_o(*both(s), h, friction, tau, join(noise))
        ),
        overdamped=lambda s, gradient, h, tau, noise: (
            split(sphere_overdamped(both(s)[0], full(gradient), h, tau, join(noise), radius))
            + momenta(s)
        ),
        residual=lambda s: (both(s)[0] ** 2).sum(dim=1) - radius**2,
        cotangency=lambda s: 2.0 * (both(s)[0] * both(s)[1]).sum(dim=1),
        position=lambda s: s[0],
    )


# Orthogonal: Q is r x s and tall, Q^T Q = I.


def to_tall(w: Tensor) -> Tensor:
    """Q of (4.49): W when it has at least as many rows as columns, its transpose otherwise."""
    return w if w.shape[0] >= w.shape[1] else w.T


def from_tall(q: Tensor, wide: bool) -> Tensor:
    """W again."""
    return q.T if wide else q


def orthogonal_project(q: Tensor, p: Tensor) -> Tensor:
    """Pi_Q, (4.15)."""
    return p - 0.5 * q @ (p.T @ q + q.T @ p)


def orthogonal_quasi_newton(q_bar: Tensor, q_n: Tensor, iterations: int) -> Tensor:
    """K iterations of (4.55), each with its two r x s products."""
    q = q_bar
    for _ in range(iterations):
        lagrange = 0.5 * (q.T @ q - torch.eye(q.shape[1], dtype=q.dtype))
        q = q - q_n @ lagrange
    return q


def orthogonal_a(q: Tensor, p: Tensor, h: float, iterations: int = 10) -> State:
    """(A, OG): RATTLE (4.57) by (4.55). With B and O 29 large products per step at K = 10."""
    q_bar = q + h * p
    q_next = orthogonal_quasi_newton(q_bar, q, iterations)
    p_bar = p + (q_next - q_bar) / h
    return q_next, orthogonal_project(q_next, p_bar)


def orthogonal_b(q: Tensor, p: Tensor, gradient: Tensor, h: float) -> State:
    """(B, OG)."""
    return q, orthogonal_project(q, p - h * gradient)


def orthogonal_o(
    q: Tensor, p: Tensor, h: float, friction: float, tau: float, noise: Tensor
) -> State:
    """(O, OG)."""
    return q, orthogonal_project(q, ornstein_uhlenbeck(p, h, friction, tau, noise))


def orthogonal_overdamped(
    q: Tensor, gradient: Tensor, h: float, tau: float, noise: Tensor, iterations: int = 10
) -> Tensor:
    """(4.53), projected by (4.55)."""
    return orthogonal_quasi_newton(euler_maruyama(q, gradient, h, tau, noise), q, iterations)


def orthogonal_pieces(iterations: int = 10, wide: bool = False) -> Pieces:
    """State ``(Q, P)``, tall. With ``wide`` the gradient is a function of W = Q^T, in W's shape."""
    return Pieces(
        a=lambda s, h: orthogonal_a(*s, h, iterations),
        b=lambda s, gradient, h: orthogonal_b(*s, from_tall(gradient, wide), h),
        o=lambda s, h, friction, tau, noise: orthogonal_o(*s, h, friction, tau, *noise),
        overdamped=lambda s, gradient, h, tau, noise: (
            orthogonal_overdamped(s[0], from_tall(gradient, wide), h, tau, *noise, iterations),
            s[1],
        ),
        residual=lambda s: s[0].T @ s[0] - torch.eye(s[0].shape[1], dtype=s[0].dtype),
        cotangency=lambda s: s[1].T @ s[0] + s[0].T @ s[1],
        position=lambda s: from_tall(s[0], wide),
    )
