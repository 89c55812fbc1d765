"""Problems in the plane with two classes: spirals, curves, circles, blobs and pure noise."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import NamedTuple

import torch
from torch import Tensor

from colangevin import checks


class Draw(NamedTuple):
    """Random numbers of a source and a type."""

    generator: torch.Generator | None
    dtype: torch.dtype

    def uniform(self, *shape: int) -> Tensor:
        """Between 0 and 1."""
        return torch.rand(*shape, generator=self.generator, dtype=self.dtype)

    def normal(self, *shape: int) -> Tensor:
        """Standard normal."""
        return torch.randn(*shape, generator=self.generator, dtype=self.dtype)


@dataclass(frozen=True)
class Planar:
    """What the problems share: points of class 0 and 1, drawn by :meth:`sample`.

    Raises:
        ValueError, TypeError: A number is not positive, noise is negative, or there is less than
            two of what is counted.
    """

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.type == "int":
                checks.count(field.name, value, least=2)
            elif field.name == "noise":
                checks.non_negative(field.name, value)
            else:
                checks.positive(field.name, value)

    def sample(
        self,
        points: int,
        *,
        generator: torch.Generator | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> tuple[Tensor, Tensor]:
        """Draw ``points`` points, alternately of class 0 and class 1 where nothing else is said.

        Args:
            points: How many points to draw, all classes together.
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
        return self._draw(torch.arange(points), Draw(generator, dtype))

    def _draw(self, places: Tensor, draw: Draw) -> tuple[Tensor, Tensor]:
        raise NotImplementedError


def _ring(angle: Tensor) -> Tensor:
    return torch.stack([angle.cos(), angle.sin()], dim=1)


@dataclass(frozen=True)
class Spiral(Planar):
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

    def _draw(self, places: Tensor, draw: Draw) -> tuple[Tensor, Tensor]:
        labels = places % 2
        s = draw.uniform(len(places)) ** self.power
        angle = 2.0 * math.pi * self.turns * s + math.pi * labels
        arms = self.scale * (s.unsqueeze(1) * _ring(angle))
        return arms + self.noise * draw.normal(*arms.shape), labels


TWO_TURNS = Spiral(turns=2.0, scale=1.0, noise=0.05)
"""The two-turn spiral of the circle experiments, (4.59)."""

FOUR_TURNS = Spiral(turns=4.0, scale=2.0, noise=0.02)
"""The four-turn spiral of the orthogonality experiments, (4.58)."""


@dataclass(frozen=True)
class Trigonometric(Planar):
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

    def _draw(self, places: Tensor, draw: Draw) -> tuple[Tensor, Tensor]:
        labels = places % 2
        x1 = self.scale * draw.uniform(len(places))
        angle = math.pi * self.frequency * x1
        curve = torch.where(labels == 0, angle.cos(), angle.sin())
        return torch.stack([x1, curve + self.noise * draw.normal(len(places))], dim=1), labels


@dataclass(frozen=True)
class Circles(Planar):
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

    def _draw(self, places: Tensor, draw: Draw) -> tuple[Tensor, Tensor]:
        labels = places % 2
        angle = 2.0 * math.pi * draw.uniform(len(places))
        radius = self.scale * torch.where(labels == 0, 1.0, self.inner)
        return radius.unsqueeze(1) * _ring(angle) + self.noise * draw.normal(len(places), 2), labels


@dataclass(frozen=True)
class Blobs(Planar):
    """Round clouds of points on a circle, one after the other, of class 0 and 1 in turn.

    Args:
        blobs: How many clouds.
        scale: Distance of their centres from the origin.
        noise: Standard deviation of a cloud in each coordinate.

    Example:
        >>> Blobs(blobs=3, noise=0.0).sample(5)[1].tolist()
        [0, 1, 0, 0, 1]
    """

    blobs: int = 4
    scale: float = 1.0
    noise: float = 0.2

    def _draw(self, places: Tensor, draw: Draw) -> tuple[Tensor, Tensor]:
        cloud = places % self.blobs
        centres = self.scale * _ring((2.0 * math.pi * cloud / self.blobs).to(draw.dtype))
        return centres + self.noise * draw.normal(len(places), 2), cloud % 2


@dataclass(frozen=True)
class Noise(Planar):
    """Points that are uniform in a square, with classes that are tossed like a coin.

    There is nothing to learn: what a network fits here, it has memorised.

    Args:
        scale: Half the side of the square.
    """

    scale: float = 1.0

    def _draw(self, places: Tensor, draw: Draw) -> tuple[Tensor, Tensor]:
        inputs = self.scale * (2.0 * draw.uniform(len(places), 2) - 1.0)
        return inputs, torch.randint(2, places.shape, generator=draw.generator)
