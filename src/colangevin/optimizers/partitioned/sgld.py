"""Stochastic gradient Langevin dynamics."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from colangevin import checks
from colangevin.optimizers.cola import CoLA
from colangevin.optimizers.partitioned.method_parts import Parts, dress, read_parts
from colangevin.optimizers.step.plan import Call


class SGLD(CoLA):
    """Stochastic gradient Langevin dynamics (2.66): θ ← θ − hG + σ√h R, with σ² = 2τ.

    G is the gradient of the loss. The step may decay as h_n = h (1 + n/decay_steps)^(−decay_power).
    With a power in (1/2, 1] the bias goes to zero in the long run.

    Args:
        parts: parameters or groups.
        step_size: h.
        temperature: τ; give it or ``noise``.
        noise: σ, instead of ``temperature``.
        decay_power: 0 keeps the step constant.
        decay_steps: the number of steps after which the decay begins to be felt.
        **options: further options of ``CoLA``.

    Example:
        >>> from torch.nn import Linear
        >>> model = Linear(2, 1)
        >>> SGLD(model.parameters(), step_size=0.1, noise=0.2).param_groups[0]["temperature"]
        0.020000000000000004
    """

    def __init__(
        self,
        parts: Parts,
        step_size: float,
        temperature: float | None = None,
        *,
        noise: float | None = None,
        decay_power: float = 0.0,
        decay_steps: float = 1.0,
        **options: Any,
    ) -> None:
        if (temperature is None) == (noise is None):
            raise ValueError(
                "give temperature or noise, which is √(2 · temperature): got "
                f"temperature={temperature!r} and noise={noise!r}"
            )
        tau = temperature if noise is None else checks.non_negative("noise", noise) ** 2 / 2.0
        decay = {
            "decay_power": checks.non_negative("decay_power", decay_power),
            "decay_steps": checks.positive("decay_steps", decay_steps),
            "steps": 0,
        }
        groups = dress(read_parts(parts), friction=math.inf, temperature=tau, **decay)
        super().__init__(groups, step_size=step_size, **options)

    def _move(self, closure: Callable[[], Any] | None = None, call: Call | None = None) -> None:
        super()._move(closure, call)
        for group in self.param_groups:
            decay(group)


def decay(group: dict[str, Any]) -> None:
    """Make the step of a group smaller, after it has made one.

    Example:
        >>> group = {"lr": 0.1, "decay_power": 1.0, "decay_steps": 1.0, "steps": 0}
        >>> decay(group)
        >>> group["lr"], group["steps"]
        (0.05, 1)
    """
    before = 1.0 + group.get("steps", 0) / group.get("decay_steps", 1.0)
    group["steps"] = group.get("steps", 0) + 1
    after = 1.0 + group["steps"] / group.get("decay_steps", 1.0)
    # A factor, not a value: a scheduler of the user's may change lr as well.
    group["lr"] = group["lr"] * (after / before) ** -group.get("decay_power", 0.0)
