"""Attacks on classifiers, and the radius in which none can succeed."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import Tensor, nn


def margins(outputs: Tensor, labels: Tensor) -> Tensor:
    """How far the right class is above the best of the others; not positive if it is not.

    Example:
        >>> margins(torch.tensor([[2.0, 0.5, 1.0], [0.0, 3.0, 1.0]]), torch.tensor([0, 2]))
        tensor([ 1., -2.])
    """
    right = outputs.gather(1, labels[:, None])
    others = outputs.scatter(1, labels[:, None], -math.inf)
    return right[:, 0] - others.amax(dim=1)


def spectral_norms(weights: Iterable[Tensor]) -> Tensor:
    """Largest singular values, in double precision.

    Example:
        >>> spectral_norms([torch.eye(2), 3 * torch.eye(2)])
        tensor([1., 3.], dtype=torch.float64)
    """
    found = [torch.linalg.matrix_norm(w.detach().double().flatten(1), 2) for w in weights]
    return torch.stack(found)


def certified_radii(outputs: Tensor, labels: Tensor, bound: float) -> Tensor:
    """Distances, in the Euclidean norm, within which no input of another class is.

    A network whose outputs move by at most L times what its inputs do has differences of two
    outputs that move by at most √2 L times that: the class stays the same within margin / (√2 L).

    Args:
        outputs: before any softmax, [images, classes].
        labels: the right classes.
        bound: L, such as the product of the layers' largest singular values.

    Example:
        >>> certified_radii(torch.tensor([[2.0, 0.0]]), torch.tensor([0]), 1.0)
        tensor([1.4142])
    """
    return margins(outputs, labels).clamp_min(0.0) / (math.sqrt(2.0) * bound)


def one_step(model: nn.Module, inputs: Tensor, labels: Tensor, size: float) -> Tensor:
    """The fast gradient sign method: every pixel moves by ``size``, and stays between 0 and 1."""
    slope = _slope(model, inputs, labels)[0]
    return (inputs - size * slope.sign()).clamp(0.0, 1.0)


def strongest(
    model: nn.Module, inputs: Tensor, labels: Tensor, radius: float, steps: int
) -> Tensor:
    """Projected gradient descent on the margin in a Euclidean ball, from a random point of it.

    Of all points on the way, each image has the one of its lowest margin. The margin does not
    saturate, as the cross entropy of a confident network does.

    Args:
        model: the network.
        inputs: pixels from 0 to 1, [images, pixels].
        labels: right classes.
        radius: of the ball.
        steps: how many, each of 2.5 times the radius over their number.

    Example:
        >>> model = nn.Linear(2, 2)
        >>> with torch.no_grad():
        ...     _ = model.weight.copy_(torch.eye(2)), model.bias.zero_()
        >>> point, right = torch.tensor([[0.6, 0.4]]), torch.tensor([0])
        >>> [bool(margins(model(strongest(model, point, right, r, 20)), right) > 0)
        ...  for r in (0.13, 0.15)]
        [True, False]
    """
    shift = torch.randn_like(inputs)
    shift *= radius * torch.rand(len(inputs), 1) ** (1 / inputs.shape[1]) / _norm(shift)
    best, lowest = inputs, torch.full((len(inputs),), math.inf)
    for step in range(steps + 1):
        point = (inputs + shift).clamp(0.0, 1.0)
        slope, margin = _slope(model, point, labels)
        lower = margin < lowest
        best, lowest = torch.where(lower[:, None], point, best), torch.minimum(margin, lowest)
        if step < steps:
            shift = point - inputs - 2.5 * radius / steps * slope / _norm(slope)
            shift = shift * (radius / _norm(shift)).clamp_max(1.0)
    return best


def _norm(rows: Tensor) -> Tensor:
    return rows.norm(dim=1, keepdim=True).clamp_min(1e-30)


def _slope(model: nn.Module, inputs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Gradient of the margins by the inputs, and the margins."""
    with torch.enable_grad():
        points = inputs.detach().requires_grad_()
        found = margins(model(points), labels)
        (slope,) = torch.autograd.grad(found.sum(), points)
    return slope, found.detach()


def accuracy(model: nn.Module, inputs: Tensor, labels: Tensor) -> float:
    """Share of right answers."""
    return float((model(inputs).argmax(dim=1) == labels).double().mean())
