"""The sign of the momentum: Lion, and with equal betas signed SGD with momentum."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from colangevin.optimizers.directions.base import (
    FLAGS,
    Direction,
    check_betas,
    check_flags,
    update_alone,
)

MEAN = "mean"


@dataclass(frozen=True)
class Sign(Direction):
    """u = sign(β₁m + (1 − β₁)G), then m ← β₂m + (1 − β₂)G: Lion's update.

    Betas of (0, 0) are the sign of the gradient.

    Args:
        betas: β₁ and β₂.
        relative: an update is as long as lr times the radius, or times a free weight's norm.
        tangent: an update is projected onto the tangent space of the constraint first.

    Example:
        >>> Sign().update(torch.tensor([5.0, -0.1]), torch.zeros(2), {"mean": torch.zeros(2)}, 1)
        tensor([ 1., -1.])
    """

    betas: tuple[float, float] = (0.9, 0.99)
    relative: bool = False
    tangent: bool = False
    keeps: ClassVar[tuple[str, ...]] = (MEAN,)
    trusted: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "betas", check_betas(self.betas))
        check_flags(self, *FLAGS)

    def numbers(self, step: int) -> tuple[float, ...]:
        """β₁, β₂ and what the C kernels leave aside."""
        return *self.betas, 0.0, 0.0, 0.0

    update = update_alone

    def updates(
        self,
        gradients: Sequence[Tensor],
        weights: Sequence[Tensor],
        memories: Sequence[dict[str, Tensor]],
        steps: Sequence[int],
    ) -> list[Tensor]:
        first, second = self.betas
        slopes, means = list(gradients), [own[MEAN] for own in memories]
        found = torch._foreach_lerp(means, slopes, 1.0 - first)
        torch._foreach_sign_(found)
        torch._foreach_lerp_(means, slopes, 1.0 - second)
        return list(found)
