"""What a warm-up has found: step size, friction and metric, with the reasons."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from colangevin.sampling.readings import Ratio


@dataclass
class Tuning:
    """The step size of a sampling, and why.

    Attributes:
        step_size: h; with a metric, in its coordinates.
        chosen_by: "user" or "tuner".
        reason: in words.
        warmup: steps that the warm-up took.
        energy_error: root mean square of ΔH/τ per step and √(degree of freedom).
        kinetic: temperature of the momenta over τ, if it was read.
        configurational: temperature of the positions over τ, if it was read.
        tried: every step size that was used, with the reason for the change.
        settled: whether the temperatures agreed with τ in the end, as far as they were read.
        descent: steps of the optimisation before the warm-up.
        friction: γ.
        metric: "dense", "diagonal", or empty where there is none.
        gradients: of one chain that the warm-up took, those of the descent included.
        order: k if energy errors fall as h^k, 3 for a smooth potential; NaN if it was not read.
    """

    step_size: float
    chosen_by: str = "user"
    reason: str = "given by the user"
    warmup: int = 0
    energy_error: float = math.nan
    kinetic: Ratio | None = None
    configurational: Ratio | None = None
    tried: list[tuple[float, str]] = field(default_factory=list)
    settled: bool = True
    descent: int = 0
    order: float = math.nan
    friction: float = math.nan
    metric: str = ""
    gradients: int = 0

    def __str__(self) -> str:
        more = f", {self.metric} metric" if self.metric else ""
        return f"step_size={self.step_size:.4g}, friction={self.friction:.3g}{more}: {self.reason}"

    def plain(self) -> dict[str, Any]:
        """As values of JSON."""
        found = dict(vars(self))
        for name in ("kinetic", "configurational"):
            found[name] = None if found[name] is None else list(found[name])
        return found

    @classmethod
    def read(cls, values: dict[str, Any]) -> Tuning:
        """Undo ``plain``."""
        made = dict(values)
        for name in ("kinetic", "configurational"):
            made[name] = None if made[name] is None else Ratio(*made[name])
        made["tried"] = [tuple(row) for row in made["tried"]]
        return cls(**made)
