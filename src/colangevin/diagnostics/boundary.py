"""How smooth a classifier in the plane is: its boundary's curvature, its predictions' slopes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import torch
from torch import Tensor

from colangevin import checks
from colangevin.diagnostics.regions import Classifier, outputs_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Array: TypeAlias = "NDArray[np.float64]"
CHUNK = 1_000
"""Points that are evaluated at once: the activations of a hidden layer stay in the cache."""


class Curvature(NamedTuple):
    """Sums over the points of a boundary, from which those of several boundaries add up."""

    points: int
    total: float
    squares: float
    largest: float

    @property
    def mean(self) -> float:
        """Mean over the points; NaN if there are none."""
        return self.total / self.points if self.points else float("nan")

    @property
    def deviation(self) -> float:
        """Standard deviation over the points."""
        if not self.points:
            return float("nan")
        return math.sqrt(max(self.squares / self.points - self.mean**2, 0.0))

    def __add__(self, other: object) -> Curvature:
        if not isinstance(other, Curvature):
            return NotImplemented
        return Curvature(
            self.points + other.points,
            self.total + other.total,
            self.squares + other.squares,
            max(self.largest, other.largest),
        )


NONE = Curvature(0, 0.0, 0.0, 0.0)
"""The curvature of no boundary at all."""


def predictions(classifier: Classifier, x: Tensor, y: Tensor) -> Tensor:
    """The probability of class 1 at the points (x, y), in the shape of ``x``.

    Raises:
        ValueError: if there are more than two classes, or logits are not finite.

    Example:
        >>> predictions(lambda points: points[:, :1], torch.zeros(2, 3), torch.ones(2, 3)).shape
        torch.Size([2, 3])
    """
    points = torch.stack([x.reshape(-1), y.reshape(-1)], dim=1)
    logits = outputs_of(classifier, points, CHUNK)
    if logits.dim() == 2 and logits.shape[1] > 2:
        raise ValueError(f"a classifier must have two classes here, got {logits.shape[1]}")
    if logits.dim() == 2 and logits.shape[1] == 2:
        logits = logits[:, 1] - logits[:, 0]
    return logits.sigmoid().reshape(x.shape)


def boundary_curvature(classifier: Classifier, extent: float = 1.2, grid: int = 1000) -> Curvature:
    """The curvature (4.60) of the boundary between the classes.

    The boundary is the contour of the predictions on a grid, as ``matplotlib.pyplot.contour``
    finds it; derivatives along it are second-order central differences. Its points do not lie
    evenly, so this is a rough measure, for comparisons: a circle of radius 1 gives about 1.15.
    Where the contour begins, ends or turns close to a grid point its points almost coincide and
    the curvature is far too large: it is above κ at a share of the points that falls as κ^(-1/2)
    only, so that it has no mean. Compare the medians of several boundaries.

    Args:
        classifier: of two classes, from points [n, 2] to logits: [n], [n, 1] or [n, 2]. A
            network is evaluated in evaluation mode and left as it was.
        extent: the grid covers [-extent, extent]².
        grid: points of the grid per side.

    Returns:
        Number of points, sum, sum of squares and largest value, with ``mean`` and
        ``deviation``. Those of several networks can be added.

    Raises:
        ValueError: if an argument is out of range, there are more classes, or logits are not
            finite.

    Example:
        >>> disc = lambda points: (1 - points.square().sum(dim=1)) * 4
        >>> 1.0 < boundary_curvature(disc, grid=200).mean < 1.3
        True
    """
    checks.positive("extent", extent)
    checks.count("grid", grid, least=2)
    found = NONE
    for line in boundary_lines(classifier, extent, grid):
        values = curvature(line)
        if len(values):
            total, squares = float(values.sum()), float((values**2).sum())
            found = found + Curvature(len(values), total, squares, float(values.max()))
    return found


def boundary_lines(classifier: Classifier, extent: float, grid: int) -> Iterator[Array]:
    """The pieces of the boundary between two classes in [-extent, extent]², as [points, 2]."""
    axis = torch.linspace(-extent, extent, grid)
    x, y = torch.meshgrid(axis, axis, indexing="xy")
    return contours(axis.numpy(), predictions(classifier, x, y).numpy(), 0.5)


def contours(
    axis: NDArray[np.float32], heights: NDArray[np.float32], level: float
) -> Iterator[Array]:
    """The lines on which the heights have the level, as arrays [points, 2]."""
    import numpy as np
    from contourpy import contour_generator

    generator = contour_generator(axis.astype(float), axis.astype(float), heights.astype(float))
    for line in generator.lines(level):
        yield np.asarray(line, dtype=float)


def curvature(line: Array) -> Array:
    """|x″y′ − x′y″| / (x′² + y′²)^{3/2} at the points of a line (4.60).

    Points that coincide with their neighbours have no direction and are left out.

    Example:
        >>> import numpy as np
        >>> angle = np.linspace(0, 2 * np.pi, 400)
        >>> circle = 2 * np.stack([np.cos(angle), np.sin(angle)], axis=1)
        >>> bool(abs(np.median(curvature(circle)) - 0.5) < 1e-3)
        True
    """
    import numpy as np

    if len(line) < 3:
        return np.empty(0)
    dx, dy = np.gradient(line, axis=0).T
    ddx, ddy = np.gradient(np.stack([dx, dy], axis=1), axis=0).T
    speed = dx * dx + dy * dy
    with np.errstate(divide="ignore", invalid="ignore"):
        values: Array = np.asarray(np.abs(ddx * dy - dx * ddy) / speed**1.5)
    return values[np.isfinite(values)]


def section_gradients(
    classifier: Classifier, extent: float = 1.2, grid: int = 1000
) -> tuple[Tensor, Tensor]:
    """How fast the predictions change along y = 0 and along x = 0: |∂p/∂x| and |∂p/∂y|.

    Args:
        classifier: as in ``boundary_curvature``.
        extent: the lines are [-extent, extent].
        grid: points on each of them.

    Returns:
        Second-order central differences at the points of both lines.

    Raises:
        ValueError: as in ``boundary_curvature``.

    Example:
        >>> along_x, along_y = section_gradients(lambda points: 8 * points[:, 0], grid=101)
        >>> bool((along_x.max() - 2).abs() < 1e-2), float(along_y.max())
        (True, 0.0)
    """
    checks.positive("extent", extent)
    axis = torch.linspace(-extent, extent, checks.count("grid", grid, least=3))
    zero = torch.zeros_like(axis)
    spacing = float(axis[1] - axis[0])
    sections = []
    for x, y in ((axis, zero), (zero, axis)):
        values = predictions(classifier, x, y).double()
        (slope,) = torch.gradient(values, spacing=spacing, edge_order=2)
        sections.append(slope.abs())
    return sections[0], sections[1]
