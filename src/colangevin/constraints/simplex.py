"""The simplex: weights that are not negative and sum to one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor

from colangevin import checks
from colangevin.constraints.base import (
    NEAR_BOUND,
    Constraint,
    Scalar,
    State,
    Vector,
    add_scaled,
    tame,
)
from colangevin.constraints.sums import Cut
from colangevin.constraints.walls import per_copy, reflected
from colangevin.errors import ConstraintError

REFLECTIONS = 20
"""Of a path, for each weight of a row: at most so many are followed."""


@dataclass(frozen=True, repr=False)
class Simplex(Constraint):
    """w ≥ 0 and Σ w = 1 along a dimension, in the flat geometry of the plane Σ w = 1.

    Momenta sum to zero. At τ > 0 paths are straight and the faces w_i = 0 reflect them, so that
    without a loss a row has the Dirichlet distribution with all parameters 1: all points of the
    simplex are equally likely. With a loss the density is exp(−loss/τ) with respect to it. At τ = 0
    a step ends at the nearest point of the simplex, and the momentum loses what leads out of it:
    many weights are exactly 0, and leave 0 when the gradient asks for it.

    Args:
        dim: the dimension along which weights sum to one.
        blocks: how many blocks are stacked along dimension 0: with ``dim=0`` those of each block
            sum to one. Along other dimensions the rows are by themselves anyway.

    Example:
        >>> Simplex().place(torch.tensor([[0.5, 0.7, -1.0]]))
        tensor([[0.4000, 0.6000, 0.0000]])
    """

    dim: int = -1
    blocks: int = field(default=1, kw_only=True)
    walls: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if isinstance(self.dim, bool) or not isinstance(self.dim, int):
            raise TypeError(f"dim must be an integer, got {self.dim!r}")
        checks.count("blocks", self.blocks)

    # --- layout -------------------------------------------------------------------------

    def bind(self, shapes: Sequence[torch.Size]) -> Constraint:
        for shape in shapes:
            if not -len(shape) <= self.dim < len(shape):
                raise ConstraintError(f"dim {self.dim} is not a dimension of shape {tuple(shape)}")
            if self._length(shape) < 2 and shape.numel():
                raise ConstraintError(
                    f"dim {self.dim} must have 2 weights or more, which share a sum, got shape "
                    f"{tuple(shape)}"
                )
        return self

    def _length(self, shape: torch.Size) -> int:
        return self.block(shape)[self.dim]

    def batch_key(self, shape: torch.Size) -> tuple[object, ...]:
        return (self._length(shape),)

    def to_batch(self, tensor: Tensor, batch_dims: int = 0) -> Tensor:
        """Rows × weights that sum to one; the blocks of a column are one row after the other."""
        shape = tensor.shape[batch_dims:]
        dim = self.dim % len(shape) + batch_dims
        return tensor.movedim(dim, -1).reshape(-1, self._length(shape))

    def from_batch(self, batch: Tensor, shape: torch.Size) -> Tensor:
        dim = self.dim % len(shape)
        return batch.reshape(*shape[:dim], *shape[dim + 1 :], shape[dim]).movedim(-1, dim)

    def cut(self, shape: torch.Size, dim: int) -> Cut:
        return Cut.NEVER if dim == self.dim % len(shape) else Cut.BETWEEN

    def describe(self) -> dict[str, Any]:
        own: dict[str, Any] = {"kind": "Simplex", "dim": self.dim}
        return own if self.blocks == 1 else {**own, "blocks": self.blocks}

    # --- geometry -----------------------------------------------------------------------

    def excess(self, position: Tensor) -> float:
        return float(self.residual(State(position)).max())

    def place(self, position: Tensor) -> Tensor:
        """The nearest point: max(w − μ, 0) with the μ for which the sum is 1."""
        position = tame(position)
        falling = position.sort(dim=-1, descending=True).values
        count = torch.arange(1, position.shape[-1] + 1, device=position.device)
        level = (falling.cumsum(dim=-1) - 1.0) / count
        # The last place at which the weight is above its level: NaN counts as the first.
        last = (falling > level).sum(dim=-1, keepdim=True).sub_(1).clamp_min_(0)
        return _normalised(position - level.gather(-1, last))

    def violated(self, position: Tensor) -> Tensor:
        return torch.cat(
            [position.sum(dim=-1, keepdim=True) - 1.0, (-position).clamp_min(0.0)], dim=-1
        )

    def residual(self, state: State) -> Tensor:
        """The larger of |Σ w − 1| and the largest −w_i, of each row."""
        return self.violated(state.position).abs().amax(dim=-1)

    def at_bound(self, state: State) -> Tensor:
        """Weights below 2 % of the mean of their row, which is 1/n."""
        return state.position * state.position.shape[-1] <= NEAR_BOUND

    def tangent(self, state: State, vector: Tensor, slack: Tensor | None = None) -> Vector:
        """Π v = v − mean(v)."""
        return Vector(vector - vector.mean(dim=-1, keepdim=True))

    def drift(self, state: State, step: Scalar) -> State:
        """A straight path, which the faces reflect."""
        assert state.momentum is not None
        times = per_copy(step, state.position)
        position, momentum = self._reflected(state.position, tame(state.momentum), times)
        # Rounding leaves the plane little by little.
        return state._replace(position=position, momentum=self.tangent(state, momentum).main)

    def _reflected(self, position: Tensor, momentum: Tensor, step: Tensor) -> tuple[Tensor, Tensor]:
        most = REFLECTIONS * position.shape[-1]
        position, momentum = reflected(position, momentum, step, first_face, most)
        return _normalised(position), momentum

    def slide(self, state: State, step: Scalar) -> State:
        """The nearest point to q + hp, and of p what stays in the face that it is in."""
        assert state.momentum is not None
        position = self.place(add_scaled(state.position, state.momentum, step))
        inside = position > 0.0
        momentum = state.momentum * inside
        mean = momentum.sum(dim=-1, keepdim=True) / inside.sum(dim=-1, keepdim=True)
        return state._replace(position=position, momentum=torch.where(inside, momentum - mean, 0.0))

    def project(self, state: State, position: Tensor, slack: Tensor | None) -> State:
        """The straight path to the proposal, brought to the plane, with reflections."""
        way = self.tangent(state, tame(position - state.position)).main
        ones = per_copy(1.0, position)
        return state._replace(position=self._reflected(state.position, way, ones)[0])

    def land(self, state: State, position: Tensor, slack: Tensor | None) -> State:
        return state._replace(position=self.place(position))

    def degrees_of_freedom(self, shapes: Sequence[torch.Size]) -> int:
        return sum(shape.numel() - shape.numel() // self._length(shape) for shape in shapes)

    def cotangency(self, state: State) -> Tensor:
        assert state.momentum is not None
        length = state.momentum.shape[-1] ** 0.5 * state.momentum.norm(dim=-1)
        return state.momentum.sum(dim=-1) / length.clamp_min(torch.finfo(length.dtype).tiny)


def _normalised(position: Tensor) -> Tensor:
    """Without what rounding has left below 0 and in the sum."""
    position = position.clamp_min(0.0)
    return position / position.sum(dim=-1, keepdim=True)


def first_face(position: Tensor, way: Tensor) -> tuple[Tensor, Tensor]:
    """When straight paths in the plane Σ w = 1 reach a face w_i = 0, and its normal there.

    Example:
        >>> first_face(torch.tensor([[0.5, 0.5]]), torch.tensor([[-1.0, 1.0]]))
        (tensor([0.5000]), tensor([[ 0.7071, -0.7071]]))
    """
    size = position.shape[-1]
    shares = torch.where(way < 0.0, position.clamp_min(0.0) / -way, 2.0)
    share, face = shares.min(dim=-1, keepdim=True)
    normal = torch.full_like(position, -1.0 / size).scatter_(-1, face, 1.0 - 1.0 / size)
    return share.squeeze(-1), normal / (1.0 - 1.0 / size) ** 0.5
