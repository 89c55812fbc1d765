"""Sizes of weights."""

from __future__ import annotations

from torch import nn


def largest_weight(model: nn.Module) -> float:
    """The largest absolute value of a model's weights, biases aside.

    Raises:
        ValueError: if it has none.

    Example:
        >>> largest_weight(nn.Linear(4, 4)) <= 0.5
        True
    """
    weights = [p for name, p in model.named_parameters() if "weight" in name]
    if not weights:
        raise ValueError(f"model has no weights: {type(model).__name__}")
    return max(float(weight.detach().abs().max()) for weight in weights)
