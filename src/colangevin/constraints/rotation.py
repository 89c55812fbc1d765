"""Planar rotations, the geodesics of the circle."""

from __future__ import annotations

import torch
from torch import Tensor


def turn(angle: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
    """scale · cos and scale · sin of an angle.

    In float32 the library functions would cost more than all the rest of a step, so there a
    rational rotation stands for them.

    Example:
        >>> turn(torch.tensor(0.0), torch.tensor(1.0))
        (tensor(1.), tensor(0.))
    """
    if angle.dtype == torch.float32:
        return rational_turn(angle, scale)
    return torch.cos(angle) * scale, torch.sin(angle) * scale


def rational_turn(angle: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
    """A rotation without transcendental functions, by the Padé approximant of the tangent.

    tan(a/2) ≈ N/D with N = a(60 − a²), D = 120 − 12a², so cos = (D² − N²)/(D² + N²) and
    sin = 2ND/(D² + N²). It has unit length and is odd in the angle, so A stays reversible;
    the angle is right to rounding up to half a radian a step, and to 3e-6 at one radian.

    Example:
        >>> cos, sin = rational_turn(torch.tensor(0.5), torch.tensor(1.0))
        >>> bool((cos - torch.cos(torch.tensor(0.5))).abs() < 1e-7)
        True
    """
    # In place on its own temporaries: outside a compiled kernel each new one costs.
    square = angle * angle
    numerator = torch.rsub(square, 60.0).mul_(angle)
    denominator = torch.rsub(square, 120.0, alpha=12.0)
    product = numerator * denominator
    upper, lower = denominator.mul_(denominator), numerator.mul_(numerator)
    inverse = scale / (upper + lower)
    return upper.sub_(lower).mul_(inverse), product.mul_(inverse).mul_(2.0)
