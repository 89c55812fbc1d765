"""Muon with its products in a precision of our choice.

``torch.optim.Muon`` computes in bfloat16. On a processor without instructions for that, software
does it, slowly: a mark against the processor, not against the method. The update here is the same
in any dtype.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

COEFFICIENTS = (3.4445, -4.7750, 2.0315)
STEPS = 5
SMALLEST_NORM = 1e-7


def newton_schulz(gradient: Tensor, dtype: torch.dtype) -> Tensor:
    """Bring the singular values of a matrix near 1, by five steps of a quintic iteration.

    X ← aX + (bA + cA²)X with A = XXᵀ, from X = G/‖G‖, or the transpose of a tall G.

    Example:
        >>> close = newton_schulz(torch.eye(3) * 5, torch.float32)
        >>> bool(((close.diagonal() > 0.6) & (close.diagonal() < 1.3)).all())
        True
    """
    a, b, c = COEFFICIENTS
    tall = gradient.shape[0] > gradient.shape[1]
    x = (gradient.mT if tall else gradient).to(dtype)
    x = x / x.norm().clamp(min=SMALLEST_NORM)
    for _ in range(STEPS):
        gram = x @ x.mT
        x = torch.addmm(x, torch.addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.mT if tall else x


class MuonIn(Optimizer):
    """The update of ``torch.optim.Muon`` with Nesterov momentum, with products in any dtype.

    Args:
        dtype: of the products.
        params: matrices.
        lr: learning rate, times √(rows / columns) for tall matrices.
        momentum: of the running mean of gradients.
    """

    def __init__(
        self, dtype: torch.dtype, params: Iterable[Any], lr: float, momentum: float
    ) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum})
        self._dtype = dtype

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Make one step; a closure is not supported."""
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                if "momentum_buffer" not in state:
                    state["momentum_buffer"] = torch.zeros_like(p)
                mean = state["momentum_buffer"].lerp_(p.grad, 1 - group["momentum"])
                update = newton_schulz(p.grad.lerp(mean, group["momentum"]), self._dtype)
                factor = math.sqrt(max(1.0, p.shape[0] / p.shape[1]))
                p.add_(update, alpha=-group["lr"] * factor)
