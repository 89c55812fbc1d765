"""Outputs and slopes of many small networks at once, written out.

What ``torch.func.vmap`` takes two milliseconds for is done in a dozen products here. The tests
compare both.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional

from colangevin.ensemble.gradients import Found

PIECE = 120_000
"""Numbers of a layer that are computed at once: they stay in the cache."""


class Sine(nn.Module):
    """The activation x → sin x."""

    def forward(self, inputs: Tensor) -> Tensor:
        """The sine of each input."""
        return inputs.sin()


FORWARD: dict[type[nn.Module], Callable[[Tensor], Tensor]] = {
    nn.ReLU: torch.relu,
    nn.Tanh: torch.tanh,
    nn.Sigmoid: torch.sigmoid,
    nn.GELU: functional.gelu,
    Sine: torch.sin,
}
"""Activations without the cost of calling a module."""


def _back(kind: type[nn.Module], slope: Tensor, before: Tensor, after: Tensor) -> Tensor:
    """The slope before an activation from that after it."""
    if kind is nn.ReLU:
        return torch.ops.aten.threshold_backward(slope, after, 0)
    if kind is nn.Tanh:
        return torch.ops.aten.tanh_backward(slope, after)
    if kind is nn.Sigmoid:
        return torch.ops.aten.sigmoid_backward(slope, after)
    if kind is nn.GELU:
        return torch.ops.aten.gelu_backward(slope, before)
    return slope * before.cos()


class Slopes:
    """Networks of ``mlp`` with one output, and binary cross entropy.

    Args:
        model: one of them.

    Raises:
        ValueError: if it is another network.

    Example:
        >>> from colangevin.lab.models import mlp
        >>> slopes = Slopes(mlp(2, [3], 1))
        >>> weights = {n: torch.zeros(4, *p.shape) for n, p in mlp(2, [3], 1).named_parameters()}
        >>> slopes.outputs(weights, torch.ones(5, 2)).shape
        torch.Size([4, 5])
    """

    def __init__(self, model: nn.Sequential) -> None:
        modules = list(model)
        self.kinds = [type(module) for module in modules[1::2]]
        layers = all(isinstance(module, nn.Linear) for module in modules[::2])
        if not layers or any(kind not in FORWARD for kind in self.kinds):
            raise ValueError(f"model must be an mlp with one of its activations, got {model!r}")
        places = range(0, len(modules), 2)
        self.names = [(f"{place}.weight", f"{place}.bias") for place in places]

    def _walk(self, weights: Mapping[str, Tensor], inputs: Tensor) -> list[Tensor]:
        """All values on the way: inputs, then before and after each activation, then outputs."""
        found, last = [inputs], inputs
        for i, (weight, bias) in enumerate(self.names):
            last = torch.baddbmm(weights[bias].unsqueeze(1), last, weights[weight].mT)
            found.append(last)
            if i < len(self.kinds):
                last = FORWARD[self.kinds[i]](last)
                found.append(last)
        return found

    def outputs(self, weights: Mapping[str, Tensor], inputs: Tensor) -> Tensor:
        """The logits of all members at the same points: [members, points]."""
        members, width = weights[self.names[0][1]].shape
        points = max(16, PIECE // (members * width))
        pieces = [
            self._walk(weights, piece.expand(members, -1, -1))[-1][..., 0]
            for piece in inputs.split(points)
        ]
        return torch.cat(pieces, dim=1)

    def __call__(
        self, weights: Mapping[str, Tensor], inputs: Tensor, labels: Tensor
    ) -> Found | list[bool]:
        """Slopes of the mean binary cross entropy of each member.

        Args:
            weights: by name, with the members in front.
            inputs: a batch of each member, [members, batch, 2].
            labels: likewise, [members, batch].

        Returns:
            The slopes; or, if outputs are no longer finite, which members' outputs are.
        """
        values = self._walk(weights, inputs)
        logits = values[-1]
        if not math.isfinite(float(logits.sum())):
            good = logits.isfinite().flatten(1).all(dim=1).tolist()
            if not all(good):
                return list(good)
        slope = (logits.sigmoid() - labels.unsqueeze(-1)).div_(labels.shape[1])
        found: dict[str, Tensor] = {}
        for i in range(len(self.names) - 1, -1, -1):
            weight, bias = self.names[i]
            found[bias] = slope.sum(dim=1)
            found[weight] = torch.bmm(slope.mT, values[2 * i])
            if i:
                after = torch.bmm(slope, weights[weight])
                slope = _back(self.kinds[i - 1], after, values[2 * i - 1], values[2 * i])
        return Found(found, {}, logits)
