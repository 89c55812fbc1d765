"""Planar rotations, the geodesics of the circle."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from torch import Tensor

_rational: ContextVar[bool] = ContextVar("rational turns", default=False)


@contextmanager
def rational_turns() -> Iterator[None]:
    """Within it, ``turn`` of float32 angles is the rational rotation: to trace a kernel."""
    token = _rational.set(True)
    try:
        yield
    finally:
        _rational.reset(token)


def turn(angle: Tensor) -> tuple[Tensor, Tensor]:
    """cos and sin of an angle.

    Inside a compiled float32 kernel the library functions would cost more than all the rest,
    so there a rational rotation stands for them: with y = angle/2 and the Padé approximant
    tan y ≈ N/D, N = y(15 − y²), D = 15 − 6y², it is cos = (D² − N²)/(D² + N²),
    sin = 2ND/(D² + N²). It has unit length and is odd in the angle, so A stays reversible;
    the angle is right to rounding up to half a radian a step, and to 3e-6 at one radian.

    Example:
        >>> turn(torch.tensor(0.0))
        (tensor(1.), tensor(0.))
    """
    if _rational.get() and angle.dtype == torch.float32:
        return rational_turn(angle)
    return torch.cos(angle), torch.sin(angle)


def rational_turn(angle: Tensor) -> tuple[Tensor, Tensor]:
    """The rational rotation of ``turn``: one division, no transcendental function.

    Example:
        >>> cos, sin = rational_turn(torch.tensor(0.5))
        >>> bool((cos - torch.cos(torch.tensor(0.5))).abs() < 1e-7)
        True
    """
    half = angle * 0.5
    square = half * half
    numerator, denominator = half * (15.0 - square), 15.0 - 6.0 * square
    upper, lower = denominator * denominator, numerator * numerator
    inverse = 1.0 / (upper + lower)
    return (upper - lower) * inverse, (numerator * denominator) * (inverse + inverse)
