"""Scores of predictions: how near, how calibrated, how well they tell the unknown from the known.

Means over points, natural logarithms. ``probabilities`` are [points, classes], as the mean of a
``Prediction`` of softmaxes gives them.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from colangevin import checks


def rmse(means: Tensor, targets: Tensor) -> float:
    """The root of the mean squared error.

    Example:
        >>> rmse(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 4.0]))  # √2
        1.4142135623730951
    """
    return float((means.double() - targets.double()).square().mean().sqrt())


def gaussian_nll(means: Tensor, deviations: Tensor, targets: Tensor) -> float:
    """−log of the mixture of Gaussians over draws, mean over points.

    Args:
        means: [draws, points], one Gaussian per draw.
        deviations: their standard deviations, likewise.
        targets: [points].

    Example:
        >>> value = gaussian_nll(torch.zeros(1, 1), torch.ones(1, 1), torch.zeros(1))
        >>> abs(value - math.log(2 * math.pi) / 2) < 1e-12
        True
    """
    means, deviations = means.double(), deviations.double()
    scaled = (targets.double() - means) / deviations
    logs = -scaled.square() / 2 - deviations.log() - math.log(2.0 * math.pi) / 2
    mixed = torch.logsumexp(logs, dim=0) - math.log(len(logs))
    return float(-mixed.mean())


def categorical_nll(probabilities: Tensor, labels: Tensor) -> float:
    """−log of the probability of the label.

    Example:
        >>> round(categorical_nll(torch.tensor([[0.5, 0.5]]), torch.tensor([1])), 4)
        0.6931
    """
    chosen = probabilities.double().gather(1, labels.view(-1, 1))
    return float(-chosen.clamp_min(torch.finfo(torch.float64).tiny).log().mean())


def crps(samples: Tensor, targets: Tensor) -> float:
    """The continuous ranked probability score E|X − y| − ½E|X − X'| of draws [draws, points].

    Example:
        >>> crps(torch.tensor([[0.0], [1.0]]), torch.tensor([0.0]))  # ½ − ½ · ½
        0.25
    """
    ordered = samples.double().sort(dim=0).values
    count = len(ordered)
    near = (ordered - targets.double()).abs().mean(dim=0)
    rank = torch.arange(1, count + 1, dtype=torch.float64).view(-1, *[1] * (ordered.dim() - 1))
    spread = (ordered * (2.0 * rank - count - 1.0)).sum(dim=0) * (2.0 / count**2)
    return float((near - spread / 2.0).mean())


def brier(probabilities: Tensor, labels: Tensor) -> float:
    """The squared distance of the probabilities from the label, summed over classes.

    Example:
        >>> brier(torch.tensor([[0.5, 0.5]]), torch.tensor([1]))
        0.5
    """
    hot = torch.nn.functional.one_hot(labels, probabilities.shape[1])
    return float((probabilities.double() - hot).square().sum(dim=1).mean())


class Reliability(NamedTuple):
    """Confidence and accuracy of the points, by bins of equal width.

    Attributes:
        confidence: mean probability of the predicted class in each bin; NaN where it is empty.
        accuracy: share of right predictions.
        points: how many.
    """

    confidence: Tensor
    accuracy: Tensor
    points: Tensor

    @property
    def error(self) -> float:
        """The expected calibration error: |accuracy − confidence|, weighted by the points."""
        gaps = (self.accuracy - self.confidence).abs().nan_to_num(0.0)
        return float((gaps * self.points).sum() / self.points.sum())


def reliability(probabilities: Tensor, labels: Tensor, bins: int = 15) -> Reliability:
    """Sort points into bins by their confidence.

    Example:
        >>> found = reliability(torch.tensor([[0.9, 0.1], [0.9, 0.1]]), torch.tensor([0, 1]))
        >>> round(found.error, 3)
        0.4
    """
    checks.count("bins", bins)
    confidence, predicted = probabilities.double().max(dim=1)
    place = (confidence * bins).ceil().long().sub(1).clamp(0, bins - 1)
    empty = torch.zeros(bins, dtype=torch.float64)
    count = empty.index_add(0, place, torch.ones_like(confidence))
    sure = empty.index_add(0, place, confidence)
    right = empty.index_add(0, place, (predicted == labels).double())
    return Reliability(sure / count, right / count, count)


def ece(probabilities: Tensor, labels: Tensor, bins: int = 15) -> float:
    """The expected calibration error, over bins of equal width."""
    return reliability(probabilities, labels, bins).error


def auroc(known: Tensor, unknown: Tensor) -> float:
    """The chance that an unknown point has a larger score than a known one; ties count half.

    Example:
        >>> auroc(torch.tensor([0.0, 1.0]), torch.tensor([1.0, 2.0]))
        0.875
    """
    ordered = known.double().sort().values
    below = torch.searchsorted(ordered, unknown.double())
    upto = torch.searchsorted(ordered, unknown.double(), right=True)
    return float((below + upto).double().mean() / (2.0 * len(known)))


def fpr95(known: Tensor, unknown: Tensor) -> float:
    """The share of known points that look unknown where 95 % of the unknown ones are found.

    Example:
        >>> fpr95(torch.tensor([0.0, 1.0]), torch.tensor([0.5, 2.0]))
        0.5
    """
    ordered = unknown.double().sort().values
    threshold = ordered[len(ordered) - math.ceil(0.95 * len(ordered))]
    return float((known.double() >= threshold).double().mean())
