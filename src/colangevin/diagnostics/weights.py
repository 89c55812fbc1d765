"""Sizes of weights."""

from __future__ import annotations

from torch import nn


def largest_weight(model: nn.Module) -> float:
    """The largest absolute value of a model's weights, biases aside.

    Example:
        >>> largest_weight(nn.Linear(4, 4)) <= 0.5
        True
    """
    weights = [p for name, p in model.named_parameters() if "weight" in name]
    return max(float(weight.detach().abs().max()) for weight in weights)
