"""A noisy cosine against a noisy sine in the plane: the binary classification problem (3.33)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from colangevin import checks


@dataclass(frozen=True)
class Trigonometric:
    """Points along a cosine (class 0) and along a sine (class 1), (3.33).

    With u = scale · t, t uniform on (0, 1) and 𝒩 standard normal, a point is::

        x₁ = u
        x₂ = cos(π · frequency · u) + noise · 𝒩     for class 0; sin for class 1

    The source writes cos(bπt), in which ``scale`` would only stretch an axis; but it has the two
    classes cross more often as ``scale`` grows from 6 to 10, so t there is the scaled abscissa.

    Args:
        scale: Length of the interval of x₁ (a); the source uses 6 and, for a harder problem, 10.
        frequency: Half-periods for each unit of x₁ (b).
        noise: Standard deviation of what is added to x₂ (c).
    """

    scale: float = 6.0
    frequency: float = 1.0
    noise: float = 0.02

    def __post_init__(self) -> None:
        checks.positive("scale", self.scale)
        checks.positive("frequency", self.frequency)
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
            >>> inputs, labels = Trigonometric(noise=0.0).sample(4)
            >>> bool((inputs[:, 1].abs() <= 1.0).all())
            True
        """
        checks.count("points", points)
        labels = torch.arange(points) % 2
        x1 = self.scale * torch.rand(points, generator=generator, dtype=dtype)
        angle = math.pi * self.frequency * x1
        curve = torch.where(labels == 0, angle.cos(), angle.sin())
        x2 = curve + self.noise * torch.randn(points, generator=generator, dtype=dtype)
        return torch.stack([x1, x2], dim=1), labels
