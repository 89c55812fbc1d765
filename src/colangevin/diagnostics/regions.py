"""Decision regions of classifiers in the plane, and their course during a training."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from torch import Tensor, nn

from colangevin import checks
from colangevin.diagnostics.states import evaluating

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Classifier: TypeAlias = "Callable[[Tensor], Tensor]"
CHUNK = 4_000
"""Points that are evaluated at once."""


@dataclass(frozen=True)
class Regions:
    """What classifiers say on a grid.

    Attributes:
        labels: [rows, columns], the class of highest probability; the first row is the lowest.
        certainty: its probability, averaged over the classifiers.
        extent: (left, right, bottom, top).
        classes: how many there are.
    """

    labels: Tensor
    certainty: Tensor
    extent: tuple[float, float, float, float]
    classes: int


def decision_regions(
    classifiers: Classifier | Sequence[Classifier],
    extent: float | tuple[float, float, float, float] = 1.2,
    grid: int = 200,
) -> Regions:
    """The regions of the plane that a classifier gives to each class.

    Args:
        classifiers: from points [n, 2] to logits: [n] or [n, 1] for two classes, [n, classes]
            for more. Of several, such as the networks of the last steps, the probabilities are
            averaged (figure 3.9).
        extent: the grid covers [−extent, extent]², or (left, right, bottom, top).
        grid: points of the grid per side.

    Raises:
        ValueError: if there is no classifier, its outputs have another shape or are NaN, or the
            numbers of classes differ.

    Example:
        >>> half = decision_regions(lambda points: points[:, :1], grid=4)
        >>> half.labels[0].tolist(), half.classes
        ([0, 0, 1, 1], 2)
    """
    found = [classifiers] if callable(classifiers) else list(classifiers)
    if not found:
        raise ValueError("classifiers must name at least one, got none")
    checks.count("grid", grid, least=2)
    left, right, bottom, top = sides(extent)
    columns, rows = torch.linspace(left, right, grid), torch.linspace(bottom, top, grid)
    y, x = torch.meshgrid(rows, columns, indexing="ij")
    points = torch.stack([x.reshape(-1), y.reshape(-1)], dim=1)
    tables = [probabilities(one, points) for one in found]
    counts = [table.shape[1] for table in tables]
    if len(set(counts)) > 1:
        raise ValueError(f"classifiers must have the same classes, got {counts} classes")
    mean = torch.stack(tables).mean(dim=0)
    certainty, labels = mean.max(dim=1)
    size = (grid, grid)
    whole = (left, right, bottom, top)
    return Regions(labels.view(size), certainty.view(size), whole, mean.shape[1])


def sides(extent: float | tuple[float, float, float, float]) -> tuple[float, float, float, float]:
    """(left, right, bottom, top) of an extent.

    Raises:
        ValueError: if it is empty, infinite, or of other numbers.

    Example:
        >>> sides(2.0)
        (-2.0, 2.0, -2.0, 2.0)
    """
    if not isinstance(extent, (tuple, list)):
        half = checks.positive("extent", extent)
        return -half, half, -half, half
    if len(extent) == 4:
        left, right, bottom, top = [checks.number("extent", side) for side in extent]
        if -math.inf < left < right < math.inf and -math.inf < bottom < top < math.inf:
            return left, right, bottom, top
    raise ValueError(f"extent must be a number or (left, right, bottom, top), got {extent}")


@torch.no_grad()
def outputs_of(classifier: Classifier, points: Tensor, at_once: int = CHUNK) -> Tensor:
    """Logits [points] or [points, classes] of a classifier in evaluation mode, on the CPU.

    Raises:
        ValueError: if they have another shape, or are not finite.

    Example:
        >>> outputs_of(lambda x: x[:, 0], torch.ones(3, 2))
        tensor([1., 1., 1.])
    """
    if isinstance(classifier, nn.Module):
        like = next(classifier.parameters(), points)
        points = points.to(like.device, like.dtype)
    with evaluating(classifier) if isinstance(classifier, nn.Module) else nullcontext():
        logits = torch.cat([classifier(part) for part in points.split(at_once)])
    if logits.dim() not in (1, 2) or len(logits) != len(points) or 0 in logits.shape:
        raise ValueError(
            f"a classifier must return [points, classes] for {len(points)} points, got shape "
            f"{tuple(logits.shape)}"
        )
    if not bool(logits.isfinite().all()):
        raise ValueError("a classifier must return finite logits, got NaN or infinity")
    return logits.cpu()


def probabilities(classifier: Classifier, points: Tensor) -> Tensor:
    """Probabilities [points, classes] of a classifier in evaluation mode.

    Example:
        >>> probabilities(lambda x: torch.zeros(len(x), 1), torch.zeros(1, 2))
        tensor([[0.5000, 0.5000]])
    """
    logits = outputs_of(classifier, points).double()
    if logits.dim() == 1 or logits.shape[1] == 1:
        right = logits.reshape(-1).sigmoid()
        return torch.stack([1 - right, right], dim=1).float()
    return logits.softmax(dim=1).float()


@dataclass
class RegionCourse:
    """Decision regions at several steps of a training.

    Attributes:
        extent: as in ``decision_regions``.
        grid: points of the grid per side.
        frames: the regions by step.

    Example:
        >>> course = RegionCourse(grid=3)
        >>> for step, place in ((0, 9.0), (100, 0.5), (200, 0.5)):
        ...     _ = course.record(step, lambda points: points[:, 0] - place)
        >>> course.changes, course.settled()[0].tolist()
        ({100: 0.3333..., 200: 0.0}, [0, 0, 100])
    """

    extent: float | tuple[float, float, float, float] = 1.2
    grid: int = 100
    frames: dict[int, Regions] = field(default_factory=dict)

    def record(self, step: int, classifiers: Classifier | Sequence[Classifier]) -> Regions:
        """Keep the regions of this step.

        Raises:
            ValueError: if the step is not later than the last one.
            TypeError: if it is no whole number.
        """
        checks.count("step", step, least=0)
        if self.frames and step <= max(self.frames):
            raise ValueError(f"step must be later than {max(self.frames)}, got {step}")
        self.frames[step] = decision_regions(classifiers, self.extent, self.grid)
        return self.frames[step]

    @property
    def changes(self) -> dict[int, float]:
        """For each step but the first, the share of the grid whose class has changed."""
        steps = list(self.frames)
        return {
            after: float((self.frames[after].labels != self.frames[before].labels).double().mean())
            for before, after in itertools.pairwise(steps)
        }

    def settled(self) -> Tensor:
        """For each point of the grid the step from which on it has its last class."""
        if not self.frames:
            raise ValueError("record() regions first; there are none")
        steps = list(self.frames)
        last = self.frames[steps[-1]].labels
        when = torch.full_like(last, steps[-1])
        for step in reversed(steps):
            still = self.frames[step].labels == last
            when = torch.where(still & (when >= step), torch.full_like(when, step), when)
            last = torch.where(still, last, torch.full_like(last, -1))
        return when


def accuracy_by_radius(
    classifier: Classifier, inputs: Tensor, labels: Tensor, edges: Sequence[float]
) -> Tensor:
    """Share of right labels among the points of each ring: are outer arms learnt first?

    Args:
        classifier: as in ``decision_regions``.
        inputs: [points, 2].
        labels: [points], classes from 0.
        edges: radii between the rings, increasing; n edges make n − 1 rings.

    Returns:
        One share per ring, NaN for a ring without points.

    Raises:
        ValueError: if the edges do not increase, shapes do not fit, inputs are not finite, or
            labels are no classes of the classifier.

    Example:
        >>> inputs = torch.tensor([[0.5, 0.0], [-0.5, 0.0], [2.0, 0.0]])
        >>> labels = torch.tensor([1, 1, 1])
        >>> accuracy_by_radius(lambda points: points[:, 0], inputs, labels, [0.0, 1.0, 3.0])
        tensor([0.5000, 1.0000], dtype=torch.float64)
    """
    if inputs.dim() != 2 or inputs.shape[1] != 2 or labels.shape != inputs.shape[:1]:
        raise ValueError(
            f"inputs must be [points, 2] and labels [points], got {tuple(inputs.shape)} and "
            f"{tuple(labels.shape)}"
        )
    checks.finite("inputs", inputs)
    limits = torch.tensor([checks.number("edges", edge) for edge in edges], dtype=torch.float64)
    if len(limits) < 2 or not bool((limits.diff() > 0).all()):
        raise ValueError(f"edges must be at least two increasing radii, got {list(edges)}")
    table = probabilities(classifier, inputs)
    _classes(labels, table.shape[1])
    right = (table.argmax(dim=1) == labels.cpu()).double()
    ring = torch.bucketize(inputs.double().norm(dim=1).cpu(), limits, right=True) - 1
    shares = [right[ring == index].mean() for index in range(len(limits) - 1)]
    return torch.stack(shares)


def _classes(labels: Tensor, count: int) -> None:
    """Refuse labels that are no classes."""
    allowed = torch.arange(count).to(labels)  # bool too, which arange does not make
    other = labels[~torch.isin(labels, allowed)]
    if len(other):
        raise ValueError(f"labels must be classes 0 to {count - 1}, got {other[0].item()}")


def plot_rings(shares: Tensor, edges: Sequence[float], axes: Axes, label: str = "") -> None:
    """Draw the accuracy of each ring as a step over its radii.

    Args:
        shares: what ``accuracy_by_radius`` returned.
        edges: the radii that it was given.
        axes: of matplotlib; call it once per network or step.
        label: what the line is, for a legend.

    Example:
        >>> from matplotlib.figure import Figure
        >>> axes = Figure().subplots()
        >>> plot_rings(torch.tensor([0.5, 1.0]), [0.0, 1.0, 3.0], axes)
        >>> axes.get_ylabel()
        'share of right labels'
    """
    axes.stairs(shares.tolist(), list(edges), label=label, baseline=None)
    axes.set(xlabel="radius", ylabel="share of right labels", ylim=(-0.05, 1.05))


def plot_regions(
    regions: Regions, axes: Axes, inputs: Tensor | None = None, labels: Tensor | None = None
) -> None:
    """Draw regions, paler where the classifier is less certain, with points if given.

    Raises:
        ValueError: if the labels are no classes of the regions.

    Example:
        >>> from matplotlib.figure import Figure
        >>> axes = Figure().subplots()
        >>> plot_regions(decision_regions(lambda points: points, grid=5), axes)
        >>> len(axes.images)
        1
    """
    import matplotlib

    if labels is not None:
        _classes(labels, regions.classes)
    colors = matplotlib.colormaps["tab10"](torch.arange(regions.classes).numpy() % 10)
    shade: Any = torch.as_tensor(colors[:, :3])[regions.labels]
    chance = 1 / regions.classes
    strength = ((regions.certainty.double() - chance) / (1 - chance)).clamp(0, 1).unsqueeze(-1)
    picture = 1 - (0.15 + 0.55 * strength) * (1 - shade)
    left, right, bottom, top = regions.extent
    axes.imshow(picture.numpy(), extent=(left, right, bottom, top), origin="lower", aspect="auto")
    if inputs is not None:
        marks = colors[labels.long().cpu().numpy()] if labels is not None else "black"
        axes.scatter(inputs[:, 0], inputs[:, 1], s=6, c=marks, edgecolors="black", linewidths=0.2)
    axes.set(xlim=(left, right), ylim=(bottom, top))


def plot_course(course: RegionCourse, axes: Axes) -> None:
    """Draw for each point of the plane when its class settled.

    Example:
        >>> from matplotlib.figure import Figure
        >>> axes, course = Figure().subplots(), RegionCourse(grid=3)
        >>> _ = course.record(0, lambda points: points[:, 0])
        >>> plot_course(course, axes)
    """
    left, right, bottom, top = sides(course.extent)
    when = course.settled()
    extent = (left, right, bottom, top)
    picture = axes.imshow(when.numpy(), extent=extent, origin="lower", aspect="auto")
    axes.figure.colorbar(picture, ax=axes, label="step from which on the class stays")
