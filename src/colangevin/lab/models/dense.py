"""Multilayer perceptrons."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from torch import nn

from colangevin import checks


def mlp(
    inputs: int,
    hidden: Sequence[int],
    outputs: int,
    activation: Callable[[], nn.Module] = nn.ReLU,
) -> nn.Sequential:
    """Return a fully connected network with an activation after every hidden layer.

    Args:
        inputs: Number of input features.
        hidden: Width of each hidden layer; empty for a linear model.
        outputs: Number of outputs, which have no activation.
        activation: Makes the module that follows each hidden layer.

    Example:
        >>> [name for name, _ in mlp(2, [500], 1).named_parameters()]
        ['0.weight', '0.bias', '2.weight', '2.bias']
    """
    widths = [inputs, *hidden, outputs]
    for width in widths:
        checks.count("width of a layer", width)
    layers: list[nn.Module] = []
    for fan_in, fan_out in pairwise(widths):
        layers += [nn.Linear(fan_in, fan_out), activation()]
    return nn.Sequential(*layers[:-1])
