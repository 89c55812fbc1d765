"""The equations of a general constraint: a user's function on batches of flat points."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.func import jacrev, vmap

from colangevin.errors import ConstraintError

FEW = 4
"""Equations up to which one backward pass for each is faster than all of them by ``vmap``."""


@dataclass(frozen=True)
class System:
    """g on points q = θ, or q = (θ, ξ) with slack.

    Attributes:
        g: the user's function of parameters of these shapes.
        inequality: read g ≤ 0 as g + ξ² = 0.
        shapes: of the parameters, in the order of g's arguments.
    """

    g: Callable[..., Tensor]
    inequality: bool
    shapes: tuple[torch.Size, ...]

    @property
    def size(self) -> int:
        """Weights in θ."""
        return sum(shape.numel() for shape in self.shapes)

    def parts(self, flat: Tensor) -> list[Tensor]:
        """The user's parameters in one flat θ."""
        parts = flat.split([shape.numel() for shape in self.shapes])
        return [part.reshape(shape) for part, shape in zip(parts, self.shapes, strict=True)]

    def of_one(self, flat: Tensor) -> Tensor:
        """g of one flat θ, as a vector."""
        return self.g(*self.parts(flat)).reshape(-1)

    def values(self, position: Tensor) -> Tensor:
        """g of a batch of θ."""
        # One system needs no vmap, so that a g which vmap cannot trace still works.
        if position.shape[0] == 1:
            return self.of_one(position[0]).unsqueeze(0)
        return vmap(self.of_one)(position)

    def linearise(self, position: Tensor) -> tuple[Tensor, Tensor]:
        """g and ∂g/∂θ; in reverse mode, because m ≤ n."""
        # The rows are independent, so the gradient of a sum over them has the gradients of all.
        with torch.enable_grad():
            leaf = position.detach().requires_grad_()
            value = self.values(leaf)
            parts = value.unbind(1)
        count = len(parts)
        if count > FEW or not value.requires_grad:
            return self._linearise_at_once(position)
        slopes = [_slope(part, leaf, keep=i + 1 < count) for i, part in enumerate(parts)]
        return value.detach(), torch.stack(slopes, dim=1)

    def _linearise_at_once(self, position: Tensor) -> tuple[Tensor, Tensor]:
        derivative = jacrev(self._twice, has_aux=True)
        if position.shape[0] == 1:
            jacobian, value = derivative(position[0])
            return value.unsqueeze(0), jacobian.unsqueeze(0)
        jacobian, value = vmap(derivative)(position)
        return value, jacobian

    def _twice(self, flat: Tensor) -> tuple[Tensor, Tensor]:
        value = self.of_one(flat)
        return value, value

    def equations(self, point: Tensor) -> tuple[Tensor, Tensor]:
        """g + ξ² and its Jacobian on the points q."""
        position, slack = self.split(point)
        value, jacobian = self.linearise(position)
        if slack is None:
            return value, jacobian
        slopes = torch.diag_embed(2 * slack)
        return value + slack.square(), torch.cat([jacobian, slopes], dim=-1)

    def left(self, point: Tensor) -> Tensor:
        """g + ξ² alone."""
        position, slack = self.split(point)
        value = self.values(position)
        return value if slack is None else value + slack.square()

    @staticmethod
    def join(main: Tensor, slack: Tensor | None) -> Tensor:
        """q from θ and ξ."""
        return main if slack is None else torch.cat([main, slack], dim=-1)

    def split(self, joined: Tensor) -> tuple[Tensor, Tensor | None]:
        """θ and ξ from q."""
        if not self.inequality:
            return joined, None
        return joined[:, : self.size], joined[:, self.size :]


def _slope(values: Tensor, leaf: Tensor, keep: bool) -> Tensor:
    ones = torch.ones_like(values)
    return torch.autograd.grad(values, leaf, ones, retain_graph=keep, materialize_grads=True)[0]


def check_arity(function: Callable[..., object], count: int) -> None:
    """Refuse a function that cannot take so many parameters.

    Raises:
        ConstraintError: naming its signature.
    """
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(*range(count))
    except TypeError as error:
        raise ConstraintError(
            f"g{signature} cannot take the {count} parameters of its group: {error}"
        ) from error


def arity(function: Callable[..., object]) -> int:
    """How many parameters g takes: its positional arguments without default."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return 1
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return 2
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(p.kind in positional and p.default is p.empty for p in parameters)
