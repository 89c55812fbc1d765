"""The trivial geometry: all of space."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from colangevin.constraints.base import Constraint, Scalar, State, Vector, flat, plus
from colangevin.constraints.sums import Cut


@dataclass(frozen=True)
class Unconstrained(Constraint):
    """No constraint: Π is the identity and geodesics are straight lines (2.53).

    Example:
        >>> state = State(torch.zeros(2), momentum=torch.ones(2))
        >>> Unconstrained().drift(state, 0.5).position
        tensor([0.5000, 0.5000])
    """

    elementwise: ClassVar[bool] = True

    def batch_key(self, shape: torch.Size) -> tuple[object, ...]:
        return ()

    def to_batch(self, tensor: Tensor, batch_dims: int = 0) -> Tensor:
        return tensor.flatten(batch_dims) if batch_dims else flat(tensor)

    def from_batch(self, batch: Tensor, shape: torch.Size) -> Tensor:
        return batch.reshape(shape)

    def cut(self, shape: torch.Size, dim: int) -> Cut:
        return Cut.BETWEEN

    def describe(self) -> dict[str, Any]:
        return {"kind": "Unconstrained"}

    def excess(self, position: Tensor) -> float:
        return 0.0

    def place(self, position: Tensor) -> Tensor:
        return position

    def residual(self, state: State) -> Tensor:
        """0, and NaN where a weight is not finite."""
        return state.position - state.position

    def tangent(self, state: State, vector: Tensor, slack: Tensor | None = None) -> Vector:
        return Vector(vector)

    def drift(self, state: State, step: Scalar) -> State:
        assert state.momentum is not None
        return state._replace(position=plus(state.position, state.momentum, step))

    def project(self, state: State, position: Tensor, slack: Tensor | None) -> State:
        return state._replace(position=position)

    def degrees_of_freedom(self, shapes: Sequence[torch.Size]) -> int:
        return sum(shape.numel() for shape in shapes)

    def cotangency(self, state: State) -> Tensor:
        """0, and NaN where a momentum is not finite."""
        assert state.momentum is not None
        return state.momentum - state.momentum
