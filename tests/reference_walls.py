"""Walls, written out literally: one number, one wall and one reflection at a time, in float64.

At a temperature above 0 a wall reflects, at 0 it stops what runs into it. ``reference`` re-exports
what is here.
"""

import torch
from torch import Tensor

from reference_words import Pieces, euler_maruyama, ornstein_uhlenbeck

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
