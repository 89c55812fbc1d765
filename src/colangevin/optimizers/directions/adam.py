"""Adam's direction: a mean of the gradients over the root of a mean of their squares."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from colangevin import checks
from colangevin.optimizers.directions.base import (
    FLAGS,
    Direction,
    check_betas,
    check_flags,
    update_alone,
)
from colangevin.torch_compat import fused_adam

MEAN, SQUARE = "mean", "square"


@dataclass(frozen=True)
class Adam(Direction):
    """m ← β₁m + (1 − β₁)G, s ← β₂s + (1 − β₂)G², u = m̂ / (√ŝ + ε).

    m̂ and ŝ are m and s over 1 − βᵗ. On free weights this is ``torch.optim.AdamW``, whose weight
    decay is ``decoupled_weight_decay`` here; ``weight_decay`` is that of ``torch.optim.Adam``.

    Args:
        betas: β₁ and β₂.
        eps: ε.
        relative: an update is as long as lr times the radius, or times a free weight's norm.
        tangent: an update is projected onto the tangent space of the constraint first.

    Example:
        >>> memory = {"mean": torch.zeros(1), "square": torch.zeros(1)}
        >>> Adam().update(torch.tensor([5.0]), torch.zeros(1), memory, 1).round(decimals=4)
        tensor([1.])
    """

    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    relative: bool = False
    tangent: bool = False
    keeps: ClassVar[tuple[str, ...]] = (MEAN, SQUARE)
    trusted: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "betas", check_betas(self.betas))
        check_flags(self, *FLAGS)
        checks.non_negative("eps", self.eps)

    def numbers(self, step: int) -> tuple[float, ...]:
        """β₁, β₂, ε, 1/(1 − β₁ᵗ) and 1/√(1 − β₂ᵗ), as the C kernels take them.

        Example:
            >>> Adam(betas=(0.5, 0.75), eps=0.0).numbers(1)
            (0.5, 0.75, 0.0, 2.0, 2.0)
        """
        first, second = self.betas
        return first, second, self.eps, 1 / (1 - first**step), 1 / math.sqrt(1 - second**step)

    update = update_alone

    def updates(
        self,
        gradients: Sequence[Tensor],
        weights: Sequence[Tensor],
        memories: Sequence[dict[str, Tensor]],
        steps: Sequence[int],
    ) -> list[Tensor]:
        first, second = self.betas
        slopes = list(gradients)
        means, squares = ([own[name] for own in memories] for name in self.keeps)
        captured = isinstance(steps[0], Tensor)
        fast = None if captured else fused_adam(slopes, means, squares, steps, self.betas, self.eps)
        if fast is not None:
            return fast
        torch._foreach_lerp_(means, slopes, 1.0 - first)
        torch._foreach_mul_(squares, second)
        torch._foreach_addcmul_(squares, slopes, slopes, 1.0 - second)
        roots = torch._foreach_sqrt(squares)
        torch._foreach_div_(roots, _short_of_one(second, steps, 0.5))
        torch._foreach_add_(roots, self.eps)
        found = torch._foreach_div(means, roots)
        torch._foreach_div_(found, _short_of_one(first, steps))
        return list(found)


def _short_of_one(beta: float, steps: Sequence[Any], power: float = 1.0) -> list[Any]:
    """(1 − βᵗ)^power, also of t that lie on a device, from where they are not read."""
    if not isinstance(steps[0], Tensor):
        return [(1.0 - beta**step) ** power for step in steps]
    log = math.log(beta) if beta else -math.inf
    return list((-torch.expm1(torch.stack(list(steps)) * log)).pow(power).unbind())
