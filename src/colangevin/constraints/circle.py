"""The circle constraint: every weight stays within its radius."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor

from colangevin import checks
from colangevin.constraints.base import (
    Constraint,
    Draw,
    Scalar,
    State,
    Vector,
    add_product_,
    affine,
    flat,
    like,
)
from colangevin.constraints.rotation import half_tangent
from colangevin.errors import ConstraintError

INSIDE = 0.9
"""Where the largest weight of an out-of-range tensor is put, as a fraction of the radius.

On the boundary itself the slack is 0, the kick Gξ/r² vanishes, and at temperature 0 the
weight would never leave.
"""


@dataclass(frozen=True, eq=False)
class Circle(Constraint):
    """|θ_i| ≤ r_i for every weight, as θ² + ξ² = r² with a slack ξ (4.2).

    The tangent space is one-dimensional, p = ω(ξ, −θ), so the momentum is kept as the
    angular speed ω. A rotates (θ, ξ) by ωh; B is ω ← ω − hGξ/r²; the noise of O is R/r.

    Args:
        radius: a positive number, or a tensor of them that broadcasts to the weight.

    Example:
        >>> circle = Circle(radius=0.5)
        >>> weight = circle.place(torch.tensor([0.3, -1.0]))
        >>> weight
        tensor([ 0.1350, -0.4500])
        >>> state = State(weight, torch.tensor([1.0, 1.0]), circle.lift(weight))
        >>> bool(circle.residual(circle.drift(state, 0.1)).abs().max() < 1e-6)
        True
    """

    radius: float | Tensor
    _inverse: float | Tensor = field(init=False, repr=False)
    _inverse_square: float | Tensor = field(init=False, repr=False)
    elementwise: ClassVar[bool] = True

    def __post_init__(self) -> None:
        radius = checks.radius("radius", self.radius)
        object.__setattr__(self, "radius", radius)
        # Divisions are made once, and exactly: in a kernel they cost more than the memory.
        exact = radius.double() if isinstance(radius, Tensor) else radius
        object.__setattr__(self, "_inverse", 1.0 / exact)
        object.__setattr__(self, "_inverse_square", 1.0 / (exact * exact))

    # --- layout -------------------------------------------------------------------------

    def bind(self, shapes: Sequence[torch.Size]) -> Constraint:
        if isinstance(self.radius, Tensor):
            for shape in shapes:
                check_broadcast(self.radius.shape, shape)
        return self

    def batch_key(self, shape: torch.Size) -> tuple[object, ...] | None:
        return (self.radius,) if isinstance(self.radius, float) else None

    def to_batch(self, tensor: Tensor, batch_dims: int = 0) -> Tensor:
        return flat(tensor) if isinstance(self.radius, float) else tensor

    def from_batch(self, batch: Tensor, shape: torch.Size) -> Tensor:
        return batch.reshape(shape)

    def numbers(self) -> tuple[float, ...]:
        radius = self.radius
        return (radius, 1.0 / radius, 1.0 / radius**2) if isinstance(radius, float) else ()

    def with_numbers(self, numbers: Sequence[Tensor]) -> Constraint:
        made = object.__new__(Circle)
        for name, number in zip(("radius", "_inverse", "_inverse_square"), numbers, strict=True):
            object.__setattr__(made, name, number)
        return made

    def describe(self) -> dict[str, Any]:
        return {"kind": "Circle", "radius": self.radius}

    # --- geometry -----------------------------------------------------------------------

    def excess(self, position: Tensor) -> float:
        ratio = float((position / like(self.radius, position)).abs().max())
        return 0.0 if ratio < 1.0 else max(ratio - 1.0, torch.finfo(position.dtype).eps)

    def place(self, position: Tensor) -> Tensor:
        """Rescale an out-of-range tensor as a whole, so that it keeps its shape."""
        ratio = (position / like(self.radius, position)).abs().max()
        return torch.where(ratio < 1.0, position, position * (INSIDE / ratio))

    def lift(self, position: Tensor) -> Tensor:
        radius = like(self.radius, position)
        # (r − θ)(r + θ) keeps full accuracy near the boundary, where r² − θ² cancels. On it
        # the slack is rounding's size, because a weight with none would never leave.
        floor = torch.finfo(position.dtype).eps * (radius * radius)
        return ((radius - position) * (radius + position)).clamp_min(floor).sqrt()

    def residual(self, state: State) -> Tensor:
        assert state.slack is not None
        radius = like(self.radius, state.position)
        return (state.position / radius).square() + (state.slack / radius).square() - 1.0

    def tangent(self, state: State, vector: Tensor, slack: Tensor | None = None) -> Vector:
        assert state.slack is not None
        along = vector * state.slack
        if slack is not None:
            along = along - slack * state.position
        return Vector(along * like(self._inverse_square, vector))

    def impulse(
        self,
        state: State,
        gradient: Tensor | None,
        weight: Scalar,
        scale: Scalar,
        draw: Draw | None,
    ) -> Vector:
        """One normal a weight has the same law as two projected ones."""
        assert state.slack is not None
        speed = None
        if gradient is not None:
            speed = gradient * state.slack * (like(self._inverse_square, gradient) * weight)
        if draw is not None:
            noise = draw(state.position) * (like(self._inverse, state.position) * scale)
            speed = noise if speed is None else speed + noise
        return Vector(torch.zeros_like(state.position) if speed is None else speed)

    def drift(self, state: State, step: Scalar) -> State:
        """Rotate (θ, ξ) by ωh, and take off what rounding has added to its length.

        Repeated rotations leave the circle at float32. A factor 1 + e = 3/2 − |q|²/2r², which
        is one Newton step for r/|q|, brings it back; e ≥ −3/4 keeps it positive far away. What
        is added to q is (e − (1 + e)(1 − cos)) q and a sine's share of its orthogonal: both are
        small, and so is their rounding.
        """
        position, slack = state.position, state.slack
        assert slack is not None
        along, across = self._change(state, step)
        return state._replace(
            position=add_product_(torch.addcmul(position, along, position), across, slack),
            slack=add_product_(torch.addcmul(slack, along, slack), across, position, -1.0),
        )

    def _change(self, state: State, step: Scalar) -> tuple[Tensor, Tensor]:
        """How much of q itself and of its orthogonal a drift adds to it."""
        position, slack, momentum = state.position, state.slack, state.momentum
        assert slack is not None and momentum is not None
        half = like(self._inverse_square, position) * 0.5
        # In a compiled kernel relu is one instruction, and a bound that minds NaN three.
        bounded = affine(add_product_(position * position, slack, slack), 1.25, -half).relu_()
        up, down = half_tangent(momentum, step)
        versed = affine(bounded, 0.5, 2.0).mul_(up).div_(add_product_(up * up, down, down))
        return add_product_(bounded.sub_(0.75), versed, up, -1.0), versed.mul_(down)

    def project(self, state: State, position: Tensor, slack: Tensor | None) -> State:
        """(θ, ξ) ← r (θ̄, ξ̄) / |(θ̄, ξ̄)|: (4.47) with atan2 in the place of arctan."""
        assert slack is not None
        length = torch.addcmul(position * position, slack, slack)
        norm = torch.rsqrt(length) * like(self.radius, position)
        return state._replace(position=position * norm, slack=slack * norm)

    def ambient_momentum(self, state: State) -> Tensor:
        assert state.momentum is not None and state.slack is not None
        return state.momentum * state.slack

    def degrees_of_freedom(self, shapes: Sequence[torch.Size]) -> int:
        return sum(shape.numel() for shape in shapes)

    def kinetic_energy(self, state: State) -> Tensor:
        assert state.momentum is not None
        return (state.momentum * like(self.radius, state.momentum)).square().sum() / 2

    def cotangency(self, state: State) -> Tensor:
        """0 by construction: ω spans the tangent space."""
        return state.position.new_zeros(())


def check_broadcast(radius: torch.Size, weight: torch.Size) -> None:
    """Refuse radii that do not belong one to each entry, or row, of a weight."""
    try:
        fits = torch.broadcast_shapes(radius, weight) == weight
    except RuntimeError:
        fits = False
    if not fits:
        raise ConstraintError(
            f"radius of shape {tuple(radius)} does not broadcast to "
            f"{tuple(weight)}, the shape of what it bounds"
        )
