"""Pictures that ArviZ has not, on axes of matplotlib that you pass in."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from colangevin.constraints import Circle, Constraint, Sphere
from colangevin.sampling import scores

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_reliability(probabilities: Tensor, labels: Tensor, axes: Axes, bins: int = 10) -> None:
    """Accuracy against confidence, by bins; a calibrated prediction is on the diagonal.

    Args:
        probabilities: [points, classes], the mean of a ``Prediction`` of softmaxes.
        labels: [points].
        axes: to draw on.
        bins: of equal width.

    Example:
        >>> from matplotlib.figure import Figure
        >>> axes = Figure().subplots()
        >>> plot_reliability(torch.rand(50, 3).softmax(1), torch.randint(3, (50,)), axes)
        >>> axes.get_xlabel()
        'confidence'
    """
    found = scores.reliability(probabilities, labels, bins)
    full = found.points > 0
    share = (found.points / found.points.sum())[full]
    middles = (torch.arange(bins) + 0.5)[full] / bins
    axes.bar(
        middles.numpy(), share.numpy(), width=0.9 / bins, alpha=0.25, label="share of the points"
    )
    axes.plot([0, 1], [0, 1], color="gray", linewidth=1)
    axes.plot(found.confidence[full].numpy(), found.accuracy[full].numpy(), "o-", label="accuracy")
    axes.set(
        xlabel="confidence",
        ylabel="accuracy",
        xlim=(0, 1),
        ylim=(0, 1),
        title=f"calibration error {found.error:.3f}",
    )
    axes.legend(fontsize="small")


def plot_marginal(
    samples: Tensor, axes: Axes, constraint: Constraint | None = None, bins: int = 60
) -> None:
    """A histogram of weights over all draws; on circles and spheres with its uniform law.

    The weights must be entries of a parameter under the constraint, all of the same radius. The
    grey line is what the surface measure alone gives: dx/(π√(r² − x²)) for a circle.

    Args:
        samples: [chains, draws, ...], such as ``trace["0.weight"]``.
        axes: to draw on.
        constraint: under which they were sampled.
        bins: of the histogram.

    Example:
        >>> from matplotlib.figure import Figure
        >>> axes = Figure().subplots()
        >>> angles = 6.28 * torch.rand(2, 300, 5)
        >>> plot_marginal(0.5 * angles.cos(), axes, Circle(0.5))
        >>> len(axes.lines), len(axes.patches)
        (1, 60)
    """
    values = samples.detach().double().cpu().flatten().numpy()
    radius = _radius(constraint)
    edge = None if radius is None else (-radius, radius)
    axes.hist(values, bins=bins, range=edge, density=True, alpha=0.6, label="draws")
    axes.set(xlabel="weight", ylabel="density")
    if radius is None:
        return
    x = torch.linspace(-0.995 * radius, 0.995 * radius, 400, dtype=torch.float64)
    weight = _uniform(x / radius, constraint, samples) / radius
    axes.plot(x.numpy(), weight.numpy(), color="gray", linewidth=1, label="surface measure")
    axes.legend(fontsize="small")


def _radius(constraint: Constraint | None) -> float | None:
    if not isinstance(constraint, (Circle, Sphere)):
        return None
    radius = constraint.radius
    return float(radius) if isinstance(radius, (int, float)) else None


def _uniform(x: Tensor, constraint: Constraint | None, samples: Tensor) -> Tensor:
    """The density of one coordinate of a uniform point on the unit sphere in n dimensions.

    It is (1 − x²)^{(n−3)/2}, normalised; n = 2 for a circle, and for rows of m weights m, with a
    slack m + 1.
    """
    dimension = 2
    if isinstance(constraint, Sphere):
        dimension = max(2, samples.shape[-1] + (0 if constraint.equality else 1))
    half = torch.tensor((dimension - 1) / 2.0, dtype=torch.float64)
    whole = torch.lgamma(half + 0.5) - torch.lgamma(half)
    return (1.0 - x.square()).pow((dimension - 3) / 2.0) * whole.exp() / torch.pi**0.5
