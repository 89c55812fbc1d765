"""Radii that a training finds: weights are free until their growth slows.

The rule is that of AdamCPR: ‖W‖² is looked at every so many steps. Where it has grown by less than
between the two looks before, it has passed its inflection point, and what the weight has then
becomes its bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

INFLECTION = "inflection"
RADIUS, NORMS = "radius", "norms"
"""What the state of a parameter keeps: the radius, ∞ before it is found, and the last two ‖W‖²."""
FOUND = (RADIUS, NORMS)


def found_radius(memory: dict[str, Any], sizes: Callable[[], Tensor]) -> Tensor | None:
    """The radius of a parameter; None as long as its weights are free.

    Example:
        >>> found_radius({}, lambda: torch.ones(3)) is None
        True
    """
    if RADIUS not in memory:
        memory[RADIUS] = torch.full(sizes().shape, math.inf, dtype=torch.float64)
        memory[NORMS] = torch.full((2,), math.nan, dtype=torch.float64)
    kept: Tensor = memory[RADIUS]
    return kept if bool(kept.isfinite().all()) else None


def look(
    memory: dict[str, Any], weight: Tensor, factor: float, sizes: Callable[[], Tensor]
) -> bool:
    """Look at a weight once more; whether it gets a radius now, ``factor`` times its sizes.

    Example:
        >>> memory, grown = {}, (1.0, 2.0, 2.5)
        >>> _ = found_radius(memory, lambda: torch.ones(1))
        >>> [look(memory, torch.tensor([w]), 2.0, lambda w=w: torch.tensor([w])) for w in grown]
        [False, False, True]
        >>> memory["radius"]
        tensor([5.], dtype=torch.float64)
    """
    if bool(memory[RADIUS].isfinite().all()):
        return False
    square = float(weight.detach().double().square().sum())
    before, last = memory[NORMS].tolist()
    memory[NORMS] = torch.tensor([last, square], dtype=torch.float64)
    if not square - last < last - before:  # NaN as long as there are no three of them
        return False
    radius = factor * sizes().to("cpu", torch.float64)
    if not bool(((radius > 0.0) & radius.isfinite()).all()):
        return False
    memory[RADIUS] = radius
    return True
