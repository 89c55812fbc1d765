"""Walls, written out literally: one number, one wall and one reflection at a time, in float64.

At a temperature above 0 a wall reflects, at 0 it stops what runs into it. ``reference`` re-exports
what is here.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from reference_words import (
    Constraint,
    Pieces,
    State,
    euler_maruyama,
    general_pieces,
    ornstein_uhlenbeck,
)

# Box: (q, p), everything elementwise.


def box_reflection(q: float, p: float, low: float, high: float) -> tuple[float, float]:
    """A straight path between mirrors that would end at q: where it ends, and its momentum."""
    while q < low or q > high:
        wall = low if q < low else high
        q, p = 2.0 * wall - q, -p
    return q, p


def box_stop(q: float, p: float, low: float, high: float) -> tuple[float, float]:
    """A path that ends at the wall that it reaches, and loses its momentum there."""
    if q < low:
        return low, 0.0
    if q > high:
        return high, 0.0
    return q, p


def box_moved(q: Tensor, p: Tensor, low: Tensor, high: Tensor, cold: bool) -> tuple[Tensor, Tensor]:
    """Each entry by itself, from where it would be without walls."""
    rule = box_stop if cold else box_reflection
    entries = zip(*(t.reshape(-1).tolist() for t in (q, p, low, high)), strict=True)
    found = torch.tensor([rule(*entry) for entry in entries], dtype=torch.float64)
    return found[:, 0].reshape(q.shape), found[:, 1].reshape(q.shape)


def box_pieces(low: Tensor, high: Tensor, cold: bool) -> Pieces:
    """State ``(q, p)``."""
    return Pieces(
        a=lambda s, h: box_moved(s[0] + h * s[1], s[1], low, high, cold),
        b=lambda s, gradient, h: (s[0], s[1] - h * gradient),
        o=lambda s, h, friction, tau, r: (s[0], ornstein_uhlenbeck(s[1], h, friction, tau, r[0])),
        overdamped=lambda s, gradient, h, tau, r: (
            box_moved(euler_maruyama(s[0], gradient, h, tau, r[0]), s[1], low, high, cold)[0],
            s[1],
        ),
        residual=lambda s: torch.maximum(low - s[0], s[0] - high).clamp_min(0.0),
        cotangency=lambda s: torch.zeros(0, dtype=s[0].dtype),
        position=lambda s: s[0],
    )


# Simplex: (q, p) is one row, and its momentum sums to zero.


def simplex_nearest(q: Tensor) -> Tensor:
    """The point max(q − μ, 0) that sums to 1; μ by bisection."""
    low, high = float(q.min()) - 1.0, float(q.max())
    for _ in range(200):
        middle = (low + high) / 2.0
        if float((q - middle).clamp_min(0.0).sum()) > 1.0:
            low = middle
        else:
            high = middle
    return (q - high).clamp_min(0.0)


def simplex_reflection(q: Tensor, p: Tensor, h: float) -> tuple[Tensor, Tensor]:
    """A straight path for the time h, from face to face."""
    size = len(q)
    while True:
        times = [float(q[i]) / -float(p[i]) if p[i] < 0.0 else float("inf") for i in range(size)]
        face = min(range(size), key=times.__getitem__)
        if times[face] >= h:
            return q + h * p, p
        q, h = q + times[face] * p, h - times[face]
        q[face] = 0.0
        normal = torch.eye(size, dtype=q.dtype)[face] - 1.0 / size
        p = p - 2.0 * (p @ normal) / (normal @ normal) * normal


def simplex_stop(q: Tensor, p: Tensor, h: float) -> tuple[Tensor, Tensor]:
    """The nearest point, and the momentum's part along the face that it lies in."""
    q = simplex_nearest(q + h * p)
    inside = (q > 1e-13).double()
    directions = torch.diag(inside) - torch.outer(inside, inside) / inside.sum()
    return q, directions @ p


def simplex_plane(v: Tensor) -> Tensor:
    """Π: the part of a vector that sums to zero."""
    return v - v.sum() / len(v)


def simplex_pieces(cold: bool) -> Pieces:
    """State ``(q, p)``."""
    move = simplex_stop if cold else simplex_reflection

    def overdamped(q: Tensor, gradient: Tensor, h: float, tau: float, noise: Tensor) -> Tensor:
        way = euler_maruyama(q, gradient, h, tau, noise) - q
        return simplex_nearest(q + way) if cold else move(q, simplex_plane(way), 1.0)[0]

    return Pieces(
        a=lambda s, h: move(*s, h),
        b=lambda s, gradient, h: (s[0], s[1] - h * simplex_plane(gradient)),
        o=lambda s, h, friction, tau, r: (
            s[0],
            simplex_plane(ornstein_uhlenbeck(s[1], h, friction, tau, r[0])),
        ),
        overdamped=lambda s, gradient, h, tau, r: (overdamped(s[0], gradient, h, tau, r[0]), s[1]),
        residual=lambda s: torch.stack([s[0].sum() - 1.0, -s[0].min().clamp_max(0.0)]),
        cotangency=lambda s: s[1].sum().reshape(1),
        position=lambda s: s[0],
    )


# Matrices: (q, p), each r x s.


def largest_singular_value(matrix: Tensor) -> Tensor:
    return torch.linalg.svdvals(matrix)[0]


def off_diagonals(matrix: Tensor) -> Tensor:
    """w_i . w_j for i < j, columns of the matrix."""
    i, j = torch.triu_indices(matrix.shape[1], matrix.shape[1], offset=1)
    return (matrix.T @ matrix)[i, j]


def matrix_pieces(g: Constraint, shape: torch.Size) -> Pieces:
    """The general pieces of g(q) = 0, with RATTLE, for a matrix."""
    flat = general_pieces(lambda q: g(q.reshape(shape)).reshape(-1))

    def up(state: State) -> State:
        return tuple(part.reshape(shape) for part in state)

    def down(state: State) -> State:
        return tuple(part.reshape(-1) for part in state)

    return Pieces(
        a=lambda s, h: up(flat.a(down(s), h)),
        b=lambda s, gradient, h: up(flat.b(down(s), gradient.reshape(-1), h)),
        o=lambda s, h, friction, tau, r: up(flat.o(down(s), h, friction, tau, down(r))),
        overdamped=lambda s, gradient, h, tau, r: up(
            flat.overdamped(down(s), gradient.reshape(-1), h, tau, down(r))
        ),
        residual=lambda s: flat.residual(down(s)),
        cotangency=lambda s: flat.cotangency(down(s)),
        position=lambda s: s[0],
    )


def spectral_reflection(q: Tensor, p: Tensor, h: float, radius: float) -> tuple[Tensor, Tensor]:
    """A straight path for the time h, from wall to wall; it leaves the ball once, by bisection."""
    while largest_singular_value(q + h * p) > radius:
        low, high = 0.0, h
        for _ in range(60):
            middle = (low + high) / 2.0
            inside = largest_singular_value(q + middle * p) <= radius
            low, high = (middle, high) if inside else (low, middle)
        q, h = q + low * p, h - low
        left, _, right = torch.linalg.svd(q, full_matrices=False)
        normal = torch.outer(left[:, 0], right[0])
        p = p - 2.0 * (p * normal).sum() * normal
    return q + h * p, p


def spectral_nearest(q: Tensor, radius: float, equality: bool) -> Tensor:
    """Singular values above the radius become the radius; with equality the largest is raised."""
    left, values, right = torch.linalg.svd(q, full_matrices=False)
    values = values.clamp_max(radius)
    if equality:
        values[0] = radius
    return left @ torch.diag(values) @ right


def spectral_stop(
    q: Tensor, p: Tensor, h: float, radius: float, equality: bool
) -> tuple[Tensor, Tensor]:
    """The nearest matrix, and the momentum without what changes the values that were moved."""
    start = q + h * p
    left, values, right = torch.linalg.svd(start, full_matrices=False)
    moved = [i for i in range(len(values)) if values[i] > radius or (equality and i == 0)]
    for i in moved:
        for j in moved:
            normal = torch.outer(left[:, i], right[j]) + torch.outer(left[:, j], right[i])
            p = p - (p * normal).sum() / (normal * normal).sum() * normal * (1.0 if i <= j else 0.0)
    return spectral_nearest(start, radius, equality), p


def spectral_pieces(radius: float, equality: bool, cold: bool) -> Pieces:
    """State ``(q, p)``."""

    def moved(q: Tensor, p: Tensor, h: float) -> tuple[Tensor, Tensor]:
        if cold:
            return spectral_stop(q, p, h, radius, equality)
        return spectral_reflection(q, p, h, radius)

    def surface(call: Callable[[Pieces], State], q: Tensor) -> State:
        return call(matrix_pieces(lambda w: largest_singular_value(w) - radius, q.shape))

    def a(s: State, h: float) -> State:
        return surface(lambda on: on.a(s, h), s[0]) if equality and not cold else moved(*s, h)

    def b(s: State, gradient: Tensor, h: float) -> State:
        if equality:
            return surface(lambda on: on.b(s, gradient, h), s[0])
        return s[0], s[1] - h * gradient

    def o(s: State, h: float, friction: float, tau: float, r: State) -> State:
        if equality:
            return surface(lambda on: on.o(s, h, friction, tau, r), s[0])
        return s[0], ornstein_uhlenbeck(s[1], h, friction, tau, r[0])

    def overdamped(s: State, gradient: Tensor, h: float, tau: float, r: State) -> State:
        proposal = euler_maruyama(s[0], gradient, h, tau, r[0])
        if cold:
            return spectral_nearest(proposal, radius, equality), s[1]
        if equality:
            return surface(lambda on: on.overdamped(s, gradient, h, tau, r), s[0])
        return moved(s[0], proposal - s[0], 1.0)[0], s[1]

    return Pieces(
        a=a,
        b=b,
        o=o,
        overdamped=overdamped,
        residual=lambda s: (largest_singular_value(s[0]) - radius).reshape(1),
        cotangency=lambda s: torch.zeros(0, dtype=s[0].dtype),
        position=lambda s: s[0],
    )
