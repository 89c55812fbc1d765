"""Angles of the circle: wrapped, held away from ±π/2, and polynomials for many of them."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from colangevin.constraints.base import tracked

QUARTER = math.pi / 2
NEAR = 1.5
"""Angles, in radians, up to which a weight is not near its bound."""
TURN = (6.28125, 0.0019353071795864769)
"""2π in two parts: small multiples of the first are exact, in every dtype."""
LONG = 1 << 14
"""From so many angles on, passes through the cache are faster than torch's sine."""
FEW, MORE = 0.49, NEAR * NEAR
SINE = {
    FEW: (1.0, -0.16666661202907562, 0.008332626894116402, -0.00019586700364015996),
    MORE: (1.0, -1.66666596e-1, 8.33306624e-3, -1.98096027e-4, 2.60578016e-6),
}
"""Factors of the powers of φ² for sin φ/φ, by the largest φ²."""
COSINE = {
    FEW: (1.0, -0.499999463558197, 0.041660044342279434, -0.0013656198279932141),
    MORE: (1.0, -0.4999995231628418, 0.04166460782289505, -1.3861209154129028e-3, 2.3327926e-5),
}
"""The same for cos φ: right to 3.4e-8."""


def angle_of(sine: Tensor, cosine: Tensor) -> Tensor:
    """``atan2``, of which torch's last bits depend on where in a tensor a number stands.

    The arctangent is taken of the smaller over the larger of both, so it is right to rounding.

    Example:
        >>> angle_of(torch.tensor([1.0, -0.0, 0.0]), torch.tensor([0.0, -1.0, 0.0]))
        tensor([ 1.5708, -3.1416,  0.0000])
    """
    steep = sine.abs() >= cosine.abs()
    below = torch.where(steep, sine, cosine)
    part = torch.where(steep, cosine, sine).div_(below.masked_fill_(below == 0.0, 1.0)).atan_()
    turn = (cosine < 0.0).to(sine.dtype).mul_(math.pi).copysign_(sine)
    quarter = torch.full_like(sine, QUARTER).copysign_(sine)
    return torch.where(steep & (sine != 0.0), quarter - part, turn + part)


def wrap_(angle: Tensor) -> Tensor:
    """The same angles from −π to π, in place. An absurd one stays finite.

    Example:
        >>> wrap_(torch.tensor([3.0, 4.0, 2e30]))
        tensor([ 3.0000, -2.2832,  3.1416])
    """
    turns = (angle * (0.5 / math.pi)).round_()
    for part in TURN:
        angle.sub_(turns, alpha=part)
    return angle.clamp_(-math.pi, math.pi)


def hold_(angle: Tensor) -> Tensor:
    """Angles not nearer to ±π/2 than √eps, in place: there is no kick where cos φ is 0.

    Example:
        >>> hold_(torch.tensor([1.0, torch.pi / 2])).cos() > 3e-4
        tensor([True, True])
    """
    size = angle.abs()
    rest = torch.rsub(size, QUARTER)
    least = torch.full_like(rest, math.sqrt(torch.finfo(angle.dtype).eps))
    edge = torch.rsub(least.copysign(rest), QUARTER)
    return angle.copy_(torch.where(rest.abs() < least, edge, size).copysign_(angle))


def polynomial(
    angle: Tensor, series: Mapping[float, tuple[float, ...]], factor: Any
) -> Tensor | None:
    """factor · (1 + c₁φ² + ...) of many angles; None where that does not hold or does not pay.

    Example:
        >>> made = polynomial(torch.full((LONG,), 0.5), COSINE, 2.0)
        >>> bool((made - 2.0 * math.cos(0.5)).abs().max() < 2e-7)
        True
    """
    plain = angle.dtype is torch.float32 and type(factor) is float and not tracked(angle)
    if not plain or angle.numel() < LONG:
        return None
    square = angle.square()
    largest = float(square.amax())
    if not largest <= MORE:
        return None
    last, *rest = _constants(series[FEW if largest <= FEW else MORE], factor)
    found = torch.add(last[1], square, alpha=last[0])
    for _, number in rest:
        torch.addcmul(number, found, square, out=found)
    return found


@functools.lru_cache(maxsize=256)
def _constants(numbers: tuple[float, ...], factor: float) -> list[tuple[float, Tensor]]:
    """Each number times a factor next to the one before it, as a tensor for ``addcmul``."""
    scaled = [factor * number for number in reversed(numbers)]
    return [(one, torch.tensor(other)) for one, other in itertools.pairwise(scaled)]


def scaled_(tensor: Tensor, factor: Any) -> Tensor:
    """A tensor times a factor, in place."""
    return tensor if type(factor) is float and factor == 1.0 else tensor.mul_(factor)
