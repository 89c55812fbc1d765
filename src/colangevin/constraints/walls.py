"""Straight paths in a convex set whose walls reflect them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import Tensor

Hit: TypeAlias = Callable[[Tensor, Tensor], "tuple[Tensor, Tensor]"]
"""Of points and ways: the share of its way after which each path leaves the set, more than 1 if it
does not, and the unit normals of the walls there."""


def reflected(
    position: Tensor, momentum: Tensor, step: Tensor, first_hit: Hit, most: int
) -> tuple[Tensor, Tensor]:
    """q + hp and p after reflections, p ← p − 2⟨n, p⟩n at a wall with the unit normal n.

    The map keeps volume and |p|, and a turned momentum leads back. This is so for a path that meets
    more than ``most`` walls, too: it is not gone at all, and its momentum is turned round.

    Args:
        position: points of a convex set, [copies, ...].
        momentum: of each.
        step: h of each copy, [copies].
        first_hit: finds walls.
        most: reflections of a path.

    Example:
        >>> def wall(q, way):  # q ≤ 1 on a line
        ...     return torch.where(way > 0.0, (1.0 - q) / way, 2.0)[:, 0], torch.ones_like(q)
        >>> reflected(torch.tensor([[0.5]]), torch.tensor([[1.0]]), torch.ones(1), wall, 5)
        (tensor([[0.5000]]), tensor([[-1.]]))
    """
    start, before = position, momentum
    position, momentum = position.clone(), momentum.clone()
    ones = [1] * (position.dim() - 1)
    going, rest = torch.arange(len(position), device=position.device), step.clone()
    for _ in range(most + 1):
        here, speed = position[going], momentum[going]
        way = speed * rest[going].view(-1, *ones)
        share, normal = first_hit(here, way)
        hits = share < 1.0
        gone = share.clamp(0.0, 1.0).to(here.dtype)
        position[going] = here + way * gone.view(-1, *ones)
        going, share, normal, speed = going[hits], gone[hits], normal[hits], speed[hits]
        if not len(going):
            return position, momentum
        rest[going] *= 1.0 - share
        along = (normal * speed).flatten(1).sum(dim=1).view(-1, *ones)
        momentum[going] = speed - 2.0 * along * normal
    position[going], momentum[going] = start[going], -before[going]
    return position, momentum


def per_copy(step: float | Tensor, position: Tensor) -> Tensor:
    """One number for each copy, from one for all or from a tensor that broadcasts."""
    number = torch.as_tensor(step, dtype=position.dtype, device=position.device)
    ones = torch.ones([len(position), *[1] * (position.dim() - 1)]).to(position)
    return (ones * number).flatten()
