"""Two-armed spirals in the plane: the binary classification problems (3.32), (4.58) and (4.59)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from colangevin import checks


@dataclass(frozen=True)
class Spiral:
    """Two interleaved noisy spirals, one a class, (3.32).

    With t uniform on (0, 1), s = t^power and 𝒩 standard normal, a point of class k ∈ {0, 1} is::

        x₁ = scale · s · cos(2π · turns · s + πk) + noise · 𝒩
        x₂ = scale · s · sin(2π · turns · s + πk) + noise · 𝒩

    The defaults are those of (3.32) on the two-turn problem; :data:`TWO_TURNS` and
    :data:`FOUR_TURNS` are (4.59) and (4.58).

    Args:
        turns: How often each arm goes round (b).
        scale: Radius of the outer end (a).
        power: Exponent of t (p); 0.5 spreads the points evenly over the disc's area.
        noise: Standard deviation of what is added to each coordinate (c).
    """

    turns: float = 2.0
    scale: float = 2.0
    power: float = 0.5
    noise: float = 0.02

    def __post_init__(self) -> None:
        checks.positive("turns", self.turns)
        checks.positive("scale", self.scale)
        checks.positive("power", self.power)
        checks.non_negative("noise", self.noise)

    def sample(
        self,
        points: int,
        *,
        generator: torch.Generator | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> tuple[Tensor, Tensor]:
        """Draw ``points`` points, alternately of class 0 and class 1.

        Args:
            points: How many points to draw, both classes together.
            generator: Source of the random numbers; None takes torch's own.
            dtype: Floating-point type of the inputs.

        Returns:
            Inputs of shape [points, 2] and integer labels of shape [points].

        Example:
            >>> inputs, labels = TWO_TURNS.sample(6, generator=torch.Generator().manual_seed(0))
            >>> inputs.shape, labels.tolist()
            (torch.Size([6, 2]), [0, 1, 0, 1, 0, 1])
        """
        checks.count("points", points)
        labels = torch.arange(points) % 2
        s = torch.rand(points, generator=generator, dtype=dtype) ** self.power
        angle = 2.0 * math.pi * self.turns * s + math.pi * labels
        arms = self.scale * torch.stack([s * angle.cos(), s * angle.sin()], dim=1)
        return arms + self.noise * torch.randn(arms.shape, generator=generator, dtype=dtype), labels


TWO_TURNS = Spiral(turns=2.0, scale=1.0, noise=0.05)
"""The two-turn spiral of the circle experiments, (4.59)."""

FOUR_TURNS = Spiral(turns=4.0, scale=2.0, noise=0.02)
"""The four-turn spiral of the orthogonality experiments, (4.58)."""
