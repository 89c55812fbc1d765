"""Small problems in the plane with two classes: circles, blobs and pure noise."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from colangevin import checks


@dataclass(frozen=True)
class Circles:
    """Two circles around the origin: class 0 outside, class 1 inside.

    With an angle φ uniform on (0, 2π), R = scale for class 0 and R = scale · inner for class 1,
    and 𝒩 standard normal, a point is (R cos φ, R sin φ) + noise · 𝒩.

    Args:
        scale: Radius of the outer circle.
        inner: Radius of the inner circle, as a share of the outer one.
        noise: Standard deviation of what is added to each coordinate.
    """

    scale: float = 1.0
    inner: float = 0.5
    noise: float = 0.05

    def __post_init__(self) -> None:
        checks.positive("scale", self.scale)
        checks.positive("inner", self.inner)
        checks.non_negative("noise", self.noise)

    def sample(
        self, points: int, *, generator: torch.Generator | None = None
    ) -> tuple[Tensor, Tensor]:
        """Draw ``points`` points, alternately of class 0 and class 1.

        Args:
            points: How many points to draw, both classes together.
            generator: Source of the random numbers; None takes torch's own.

        Returns:
            Inputs of shape [points, 2] and integer labels of shape [points].

        Example:
            >>> inputs, labels = Circles(noise=0.0).sample(4)
            >>> torch.allclose(inputs.norm(dim=1), torch.tensor([1.0, 0.5, 1.0, 0.5]))
            True
        """
        labels = torch.arange(checks.count("points", points)) % 2
        angle = 2.0 * math.pi * torch.rand(points, generator=generator)
        radius = self.scale * torch.where(labels == 0, 1.0, self.inner)
        ring = radius.unsqueeze(1) * torch.stack([angle.cos(), angle.sin()], dim=1)
        return ring + self.noise * torch.randn(points, 2, generator=generator), labels


@dataclass(frozen=True)
class Blobs:
    """Round clouds of points on a circle, of class 0 and 1 in turn.

    Args:
        blobs: How many clouds.
        scale: Distance of their centres from the origin.
        noise: Standard deviation of a cloud in each coordinate.
    """

    blobs: int = 4
    scale: float = 1.0
    noise: float = 0.2

    def __post_init__(self) -> None:
        checks.count("blobs", self.blobs, least=2)
        checks.positive("scale", self.scale)
        checks.non_negative("noise", self.noise)

    def sample(
        self, points: int, *, generator: torch.Generator | None = None
    ) -> tuple[Tensor, Tensor]:
        """Draw ``points`` points, from one cloud after the other.

        Args:
            points: How many points to draw, all clouds together.
            generator: Source of the random numbers; None takes torch's own.

        Returns:
            Inputs of shape [points, 2] and integer labels of shape [points].

        Example:
            >>> Blobs(blobs=3, noise=0.0).sample(5)[1].tolist()
            [0, 1, 0, 0, 1]
        """
        cloud = torch.arange(checks.count("points", points)) % self.blobs
        angle = 2.0 * math.pi * cloud / self.blobs
        centres = self.scale * torch.stack([angle.cos(), angle.sin()], dim=1)
        return centres + self.noise * torch.randn(points, 2, generator=generator), cloud % 2


@dataclass(frozen=True)
class Noise:
    """Points that are uniform in a square, with classes that are tossed like a coin.

    There is nothing to learn: what a network fits here, it has memorised.

    Args:
        scale: Half the side of the square.
    """

    scale: float = 1.0

    def __post_init__(self) -> None:
        checks.positive("scale", self.scale)

    def sample(
        self, points: int, *, generator: torch.Generator | None = None
    ) -> tuple[Tensor, Tensor]:
        """Draw ``points`` points.

        Args:
            points: How many points to draw.
            generator: Source of the random numbers; None takes torch's own.

        Returns:
            Inputs of shape [points, 2] and integer labels of shape [points].

        Example:
            >>> inputs, labels = Noise(scale=2.0).sample(100)
            >>> bool(inputs.abs().max() <= 2.0), sorted(set(labels.tolist()))
            (True, [0, 1])
        """
        square = 2.0 * torch.rand(checks.count("points", points), 2, generator=generator) - 1.0
        return self.scale * square, torch.randint(2, (points,), generator=generator)
