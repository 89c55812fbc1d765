"""Planar rotations, the geodesics of the circle."""

from __future__ import annotations

import torch
from torch import Tensor


def rotate(x: Tensor, y: Tensor, angle: Tensor) -> tuple[Tensor, Tensor]:
    """Rotate (x, y) by ``angle`` from y towards x: x' = x cos + y sin, y' = y cos − x sin.

    Example:
        >>> rotate(torch.tensor(1.0), torch.tensor(0.0), torch.tensor(0.0))
        (tensor(1.), tensor(0.))
    """
    cos, sin = torch.cos(angle), torch.sin(angle)
    return cos * x + sin * y, cos * y - sin * x
