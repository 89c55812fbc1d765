"""Dissipated Hamiltonian stochastic gradient dynamics."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from colangevin.integrators.recipe import direction
from colangevin.integrators.scheme import Overdamped
from colangevin.optimizers.cola import CoLA
from colangevin.optimizers.partitioned.method_parts import Parts, dress, pair
from colangevin.optimizers.step.plan import Call


class DHSGD(CoLA):
    """Dissipated Hamiltonian stochastic gradient dynamics, (3.27) to (3.30).

    The first part is a Hamiltonian system, solved by Verlet's method. The second part goes down
    the gradient G₂ of the loss: θ₂ ← θ₂ − (h²/2) G₂. This is LOL with γ₁ = 0 and τ₂ = 0. As h → 0
    it dissipates nothing. The contractive method, with θ₂ ← θ₂ − h G₂, dissipates |p₁|²/2 + L at
    the rate |G₂|².

    Args:
        parts: two parts, the Hamiltonian one and the dissipated one.
        step_size: h.
        contractive: whether the step of the second part is h instead of h²/2.
        heun: whether the second part uses Heun's method instead of Euler's. This makes the
            contractive method one of second order. It takes two gradients per step, so
            ``step`` needs a closure. If the second gradient is not finite, the first half of
            the step has been made already.
        **options: further options of ``CoLA``.

    Example:
        >>> from torch.nn import Linear, ReLU, Sequential
        >>> model = Sequential(Linear(2, 8), ReLU(), Linear(8, 1))
        >>> from colangevin import partition
        >>> optimizer = DHSGD(partition(model, by="output"), step_size=0.1, contractive=True)
        >>> [group["scheme"] for group in optimizer.param_groups]
        ['BAOAB', 'OBA']
    """

    def __init__(
        self,
        parts: Parts,
        step_size: float,
        contractive: bool = False,
        heun: bool = False,
        **options: Any,
    ) -> None:
        if heun and not contractive:
            raise ValueError(f"heun={heun} is for the contractive method, got contractive=False")
        first, second = pair("DHSGD", "the Hamiltonian one and the dissipated one", parts)
        groups = [
            *dress(first, friction=0.0, scheme="BAOAB"),
            *dress(second, friction=math.inf, scheme="OBA" if contractive else "BAOAB", heun=heun),
        ]
        super().__init__(groups, step_size=step_size, **options)

    @property
    def needs_closure(self) -> bool:
        """Whether ``step`` must be given a closure."""
        return any(group.get("heun") for group in self.param_groups)

    def _move(self, closure: Callable[[], Any] | None = None, call: Call | None = None) -> None:
        indices = [i for i, group in enumerate(self.param_groups) if group.get("heun")]
        if not indices:
            super()._move(closure, call)
            return
        if closure is None:
            raise ValueError("closure must be given: Heun's method takes two gradients a step")
        before = self._slopes(indices)
        super()._move(closure, call)
        with torch.enable_grad():
            closure()
        # From θ − hG to θ − h (G + G*)/2, with G* the gradient there.
        after = self._slopes(indices)
        changes = {p: (after[p] - slope) / 2 for p, slope in before.items() if p in after}
        for index in indices:
            moves = (Overdamped(float(self.param_groups[index]["lr"]), None),)
            super()._move(None, Call(gradients=changes, actions=moves, only=[index], counted=False))

    def _slopes(self, indices: Sequence[int]) -> dict[Tensor, Tensor]:
        return {
            p: direction(p.grad, p.detach(), self.param_groups[i]["weight_decay"]).clone()
            for i in indices
            for p in self.param_groups[i]["params"]
            if p.grad is not None
        }
