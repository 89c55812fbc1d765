"""The box constraint: every weight stays between two walls."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias

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
    like,
)
from colangevin.constraints.circle import below, one_below_the_other
from colangevin.constraints.sums import Alone, Cut, part_of
from colangevin.errors import ConstraintError

Wall: TypeAlias = "float | Tensor | None"


@dataclass(frozen=True, eq=False, repr=False)
class Box(Constraint):
    """low ≤ w ≤ high for every weight, in the flat space of the weights.

    At τ > 0 a wall reflects a weight and its momentum. So without a loss all weights of the box are
    equally likely, and with one the density is exp(−loss/τ), cut off at the walls. At τ = 0 a wall
    stops a weight and takes its momentum: what is pressed against a wall rests there, and leaves it
    in the step in which the gradient turns. Weights that are outside are clipped.

    Args:
        low: a number, or a tensor of them that broadcasts to the weight; None for an open side.
        high: likewise.
        blocks: how many blocks are stacked along dimension 0. Walls may have them as one more
            dimension in front.

    Example:
        >>> box = Box(-1.0, 1.0)
        >>> state = State(torch.tensor([0.9]), torch.tensor([1.0]))
        >>> box.drift(state.map(torch.clone), 0.5)[:2]  # it goes 0.1 to the wall and 0.4 back
        (tensor([0.6000]), tensor([-1.]))
        >>> box.slide(state, 0.5)[:2]
        (tensor([1.]), tensor([0.]))
    """

    low: Wall
    high: Wall
    blocks: int = field(default=1, kw_only=True)
    _low: Any = field(init=False, repr=False)
    _high: Any = field(init=False, repr=False)
    elementwise: ClassVar[bool] = True
    walls: ClassVar[bool] = True

    def __post_init__(self) -> None:
        checks.count("blocks", self.blocks)
        low, high = _wall("low", self.low), _wall("high", self.high)
        if low is None and high is None:
            raise ValueError("low or high must be given, got None for both: that is no constraint")
        # Inside, both walls are numbers or both are tensors, and infinite where a side is open.
        own: tuple[Any, Any] = -math.inf if low is None else low, math.inf if high is None else high
        if any(isinstance(wall, Tensor) for wall in own):
            own = tuple(torch.as_tensor(wall, dtype=torch.float64) for wall in own)  # type: ignore[assignment]
            if bool((own[0] >= own[1]).any()):
                raise ValueError("low must be below high everywhere, got an entry where it is not")
        elif own[0] >= own[1]:
            raise ValueError(f"low must be below high, got low={low} and high={high}")
        for name, wall in zip(("low", "high", "_low", "_high"), (low, high, *own), strict=True):
            object.__setattr__(self, name, wall)

    @property
    def _plain(self) -> bool:
        """Whether all weights have the same walls."""
        return not isinstance(self._low, Tensor)

    # --- layout -------------------------------------------------------------------------

    def bind(self, shapes: Sequence[torch.Size]) -> Constraint:
        for shape in shapes:
            block = self.block(shape)
            walls = {"low": self.low, "high": self.high}
            for name, wall in walls.items():
                if isinstance(wall, Tensor):
                    walls[name] = one_below_the_other(wall, shape, block, name)
            if walls["low"] is not self.low or walls["high"] is not self.high:
                return Box(**walls, blocks=self.blocks)
        return self

    def batch_key(self, shape: torch.Size) -> tuple[object, ...] | None:
        return (self.low, self.high) if self._plain else None

    def to_batch(self, tensor: Tensor, batch_dims: int = 0) -> Tensor:
        if not self._plain:
            return tensor
        return tensor if tensor.dim() == 1 and not batch_dims else tensor.flatten(batch_dims)

    def from_batch(self, batch: Tensor, shape: torch.Size) -> Tensor:
        return batch.reshape(shape)

    def cut(self, shape: torch.Size, dim: int) -> Cut:
        return Cut.BETWEEN

    def part(
        self, shape: torch.Size, first: Sequence[int], size: Sequence[int], over: Alone
    ) -> Constraint:
        if self._plain:
            return self
        return Box(*(part_of(wall, shape, first, size) for wall in (self._low, self._high)))

    def for_members(self, owns: Sequence[Constraint], dims: int) -> Constraint:
        boxes = [own for own in owns if isinstance(own, Box) and own._plain]
        if len(boxes) < len(owns) or len({(own.low, own.high) for own in boxes}) == 1:
            return super().for_members(owns, dims)

        def column(numbers: list[float]) -> Tensor:
            return torch.tensor(numbers, dtype=torch.float64).view(-1, *[1] * dims)

        return Box(column([own._low for own in boxes]), column([own._high for own in boxes]))

    def describe(self) -> dict[str, Any]:
        own = {"kind": "Box", "low": self.low, "high": self.high}
        return own if self.blocks == 1 else {**own, "blocks": self.blocks}

    def check_dtype(self, dtype: torch.dtype) -> None:
        low, high = self.bounds(torch.zeros(0, dtype=dtype))
        if bool(torch.as_tensor(low > high).any()):
            raise ConstraintError(
                f"low={self.low} and high={self.high} have no number of {dtype} between them"
            )

    # --- geometry -----------------------------------------------------------------------

    def bounds(self, reference: Tensor) -> tuple[Any, Any]:
        """The least and the largest numbers of a tensor's dtype that are not outside."""
        dtype, device = reference.dtype, reference.device
        if self._plain:
            return -_below(-self._low, dtype), _below(self._high, dtype)
        return -below(-self._low, dtype).to(device), below(self._high, dtype).to(device)

    def _clipped(self, position: Tensor) -> Tensor:
        return position.clamp(*self.bounds(position))

    def _half_width(self, reference: Tensor) -> Any:
        """Half of the way between the walls; infinite where a side is open."""
        return like((self._high - self._low) / 2, reference)

    def _scale(self, reference: Tensor) -> Any:
        """The half width, and 1 where a side is open."""
        half = self._half_width(reference)
        if isinstance(half, Tensor):
            return torch.where(half.isfinite(), half, 1.0)
        return half if math.isfinite(half) else 1.0

    def excess(self, position: Tensor) -> float:
        return float((self.violated(position) / self._scale(position)).max())

    def place(self, position: Tensor) -> Tensor:
        """The nearest point: weights that are outside are clipped."""
        return self._clipped(position)

    def narrow(self, position: Tensor, dtype: torch.dtype) -> Tensor:
        return self._clipped(position.to(dtype))

    def violated(self, position: Tensor) -> Tensor:
        low, high = like(self._low, position), like(self._high, position)
        return (low - position).clamp_min(0.0) + (position - high).clamp_min(0.0)

    def residual(self, state: State) -> Tensor:
        """How far a weight is outside, relative to half the width of the box where it has one."""
        return self.violated(state.position) / self._scale(state.position)

    def at_bound(self, state: State) -> Tensor:
        """Nearer to a wall than 2 % of the half width; on the wall where a side is open."""
        (low, high), half = self.bounds(state.position), self._half_width(state.position)
        near = torch.as_tensor(NEAR_BOUND * half).nan_to_num(posinf=0.0).to(state.position)
        return (state.position <= low + near) | (state.position >= high - near)

    def extent(self, position: Tensor, dims: list[int]) -> Tensor:
        """The norm of the half widths; that of the weight where a side is open."""
        half = torch.ones_like(position).mul_(self._half_width(position))
        length = torch.linalg.vector_norm(half, dim=dims, keepdim=True)
        return torch.where(length.isfinite(), length, super().extent(position, dims))

    def tangent(self, state: State, vector: Tensor, slack: Tensor | None = None) -> Vector:
        return Vector(vector)

    def drift(self, state: State, step: Scalar) -> State:
        """q ← q + hp, reflected at the walls, and p with it."""
        assert state.momentum is not None
        far = add_scaled(state.position, state.momentum, step, out=state.position)
        position, turned = self._reflected(far)
        return state._replace(
            position=position, momentum=torch.where(turned, -state.momentum, state.momentum)
        )

    def slide(self, state: State, step: Scalar) -> State:
        """q ← q + hp, clipped, without the momenta that have led to a wall."""
        assert state.momentum is not None
        far = add_scaled(state.position, state.momentum, step, out=state.position)
        position = self._clipped(far)
        return state._replace(
            position=position, momentum=state.momentum.masked_fill(position != far, 0.0)
        )

    def _reflected(self, far: Tensor) -> tuple[Tensor, Tensor]:
        """Where straight paths through mirrors lead, and which of them end turned round."""
        clipped = self._clipped(far)
        turned = clipped != far
        mirrored = clipped.mul_(2.0).sub_(far)
        position = self._clipped(mirrored)
        # Nearly always one reflection does, but a GPU would have to wait for the answer.
        if far.is_cpu and not self.captured and torch.equal(position, mirrored):
            return position, turned
        low, high = like(self._low, far), like(self._high, far)
        period = 2 * (high - low)
        # After whole periods a path is back; where a side is open there is none.
        periods = ((far - low) / period - 0.25).round_() * period
        far = far - periods.nan_to_num(0.0)
        turned = (far < low) | (far > high)
        mirrored = torch.where(far < low, 2 * low - far, 2 * high - far)
        return self._clipped(torch.where(turned, mirrored, far)), turned

    def project(self, state: State, position: Tensor, slack: Tensor | None) -> State:
        """The proposal, reflected at the walls."""
        return state._replace(position=self._reflected(position)[0])

    def land(self, state: State, position: Tensor, slack: Tensor | None) -> State:
        return state._replace(position=self._clipped(position))

    def degrees_of_freedom(self, shapes: Sequence[torch.Size]) -> int:
        return sum(shape.numel() for shape in shapes)

    def cotangency(self, state: State) -> Tensor:
        """0, and NaN where a momentum is not finite."""
        assert state.momentum is not None
        return state.momentum - state.momentum


class NonNegative(Box):
    """w ≥ 0 for every weight: ``Box(0, None)``.

    Example:
        >>> NonNegative().place(torch.tensor([-1.0, 2.0]))
        tensor([0., 2.])
    """

    def __init__(self) -> None:
        super().__init__(0.0, None)

    def __repr__(self) -> str:
        return "NonNegative()"


def _wall(name: str, wall: object) -> Wall:
    """A wall: None, a number, or a tensor of numbers that may be infinite."""
    if wall is None or not isinstance(wall, Tensor):
        number = None if wall is None else checks.number(name, wall)
        return None if number is None or math.isinf(number) else number
    if not wall.is_floating_point():
        raise TypeError(f"{name} must be a floating-point tensor, got {wall.dtype}")
    if bool(wall.isnan().any()):
        raise ValueError(f"{name} must not have NaN")
    return wall.detach().clone()


@functools.lru_cache(maxsize=256)
def _below(wall: float, dtype: torch.dtype) -> float:
    return float(below(torch.tensor(wall, dtype=torch.float64), dtype))
