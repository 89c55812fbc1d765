"""Weights of few bits: rounded to equally spaced numbers, symmetric about 0, after training."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

FRACTIONS = torch.linspace(0.1, 1.0, 46)
"""Of the largest weight: the ends of the scale that are tried for the least error."""


def rounded(weight: Tensor, bits: int, *, by_row: bool, least_error: bool) -> Tensor:
    """A weight on 2^bits − 1 levels, such as −s, 0 and s for two bits.

    Args:
        weight: rows are along dimension 0.
        bits: at least 2.
        by_row: each row has a scale of its own; else there is one.
        least_error: the scale of the least squared error, of ``FRACTIONS``; else the largest
            weight is the last level.

    Example:
        >>> weight = torch.tensor([[0.1, -0.1, 0.12, 1.0], [0.2, -0.2, 0.1, 0.0]])
        >>> rounded(weight, 2, by_row=False, least_error=False)[0]
        tensor([0., -0., 0., 1.])
        >>> rounded(weight, 2, by_row=True, least_error=True)[1]
        tensor([ 0.1680, -0.1680,  0.1680,  0.0000])
    """
    rows = weight.flatten(1) if by_row else weight.reshape(1, -1)
    levels = 2 ** (bits - 1) - 1
    largest = rows.abs().amax(dim=1, keepdim=True).clamp_min(1e-30)
    best = _on_levels(rows, largest, levels)
    if least_error:
        error = (best - rows).square().sum(dim=1, keepdim=True)
        for fraction in FRACTIONS:
            other = _on_levels(rows, fraction * largest, levels)
            loss = (other - rows).square().sum(dim=1, keepdim=True)
            best, error = torch.where(loss < error, other, best), torch.minimum(loss, error)
    return best.reshape(weight.shape)


def _on_levels(rows: Tensor, end: Tensor, levels: int) -> Tensor:
    step = end / levels
    return (rows / step).round().clamp(-levels, levels) * step


@torch.no_grad()
def rounded_model(model: nn.Module, bits: int, *, by_row: bool, least_error: bool) -> nn.Module:
    """A copy whose matrices and kernels are rounded; biases are as they were.

    Example:
        >>> model = rounded_model(nn.Linear(3, 2), 2, by_row=False, least_error=False)
        >>> len(model.weight.unique()) <= 3
        True
    """
    made = copy.deepcopy(model)
    for parameter in made.parameters():
        if parameter.dim() > 1:
            parameter.copy_(rounded(parameter, bits, by_row=by_row, least_error=least_error))
    return made
