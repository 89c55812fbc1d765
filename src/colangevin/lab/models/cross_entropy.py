"""The cross entropy of a linear output layer, without a tensor of all logits."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

NUMBERS = 1 << 22
"""Logits in a block on a processor: few enough for its cache, enough for fast products."""


def linear_cross_entropy(layer: nn.Linear, features: Tensor, targets: Tensor) -> Tensor:
    """Mean of ``cross_entropy(layer(features), targets)``, block by block.

    A language model spends most of its time in its output layer. There the usual way goes
    through the logits of all tokens several times in main memory. Here a few rows are
    multiplied, made into probabilities and into their share of the gradients, and their memory
    is used again for the next rows. The numbers are the same up to rounding.

    Args:
        layer: the output layer, with a bias.
        features: (n, in) its inputs.
        targets: (n,) the right classes.

    Example:
        >>> layer, features = nn.Linear(4, 50), torch.randn(7, 4)
        >>> targets = torch.arange(7)
        >>> from torch.nn import functional
        >>> whole = functional.cross_entropy(layer(features), targets)
        >>> bool((linear_cross_entropy(layer, features, targets) - whole).abs() < 1e-5)
        True
    """
    loss: Tensor = _InBlocks.apply(features, layer.weight, layer.bias, targets)
    return loss


class _InBlocks(torch.autograd.Function):
    """Loss and gradients in one pass; the backward pass only scales what is there."""

    @staticmethod
    def forward(
        ctx: Any, features: Tensor, weight: Tensor, bias: Tensor, targets: Tensor
    ) -> Tensor:
        wanted = any(ctx.needs_input_grad)
        slopes = [torch.zeros_like(t) for t in (features, weight, bias)] if wanted else []
        count = len(targets)
        rows = max(1, NUMBERS // len(weight)) if weight.device.type == "cpu" else count
        room = features.new_empty(min(rows, count), len(weight))
        total = features.new_zeros(())
        for first in range(0, count, rows):
            cut = slice(first, first + rows)
            inputs, right = features[cut], targets[cut, None]
            logits = torch.addmm(bias, inputs, weight.T, out=room[: len(inputs)])
            largest = logits.amax(dim=1, keepdim=True)
            chosen = logits.gather(1, right) - largest
            sums = logits.sub_(largest).exp_().sum(dim=1, keepdim=True)
            total += (sums.log() - chosen).sum()
            if wanted:
                error = logits.div_(sums * count)  # probabilities, less 1 for the right class
                error.scatter_add_(1, right, error.new_full((), -1.0 / count).expand_as(right))
                torch.mm(error, weight, out=slopes[0][cut])
                slopes[1].addmm_(error.T, inputs)
                slopes[2] += error.sum(dim=0)
        ctx.save_for_backward(*slopes)
        return total / count

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        (scale,) = gradients
        return *(slope * scale for slope in ctx.saved_tensors), None
