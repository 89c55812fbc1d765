"""The trivial geometry: all of space, with equal masses or with a diagonal mass matrix M."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
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
    add_scaled,
    check_scale,
    like,
    rows_of,
)
from colangevin.constraints.sums import Alone, Cut, part_of
from colangevin.errors import ConstraintError


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
        return tensor if tensor.dim() == 1 and not batch_dims else tensor.flatten(batch_dims)

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
        """q ← q + hM⁻¹p, in place."""
        place = state.position
        return state._replace(position=add_scaled(place, self.velocity(state), step, out=place))

    def velocity(self, state: State) -> Tensor:
        assert state.momentum is not None
        return state.momentum

    def project(self, state: State, position: Tensor, slack: Tensor | None) -> State:
        return state._replace(position=position)

    def degrees_of_freedom(self, shapes: Sequence[torch.Size]) -> int:
        return sum(shape.numel() for shape in shapes)

    def cotangency(self, state: State) -> Tensor:
        """0, and NaN where a momentum is not finite."""
        assert state.momentum is not None
        return state.momentum - state.momentum


@dataclass(frozen=True, eq=False, repr=False)
class Massive(Unconstrained):
    """No constraint, and a mass per weight: dq = M⁻¹p dt (2.34), momenta ~ N(0, τM).

    A heavy weight is slow: it moves as with the lr divided by its mass. What the weights sample
    does not depend on the masses, how fast they do it does. Masses that are like the curvature of
    the loss make all directions equally stiff, so the step can be longer (preconditioning).
    ``mass=`` of a parameter group is the short form.

    Args:
        mass: a positive number, or a tensor of them that broadcasts to each weight.

    Example:
        >>> state = State(torch.zeros(2), momentum=torch.ones(2))
        >>> Massive(torch.tensor([1.0, 4.0])).drift(state, 0.5).position
        tensor([0.5000, 0.1250])
    """

    mass: float | Tensor
    _inverse: float | Tensor = field(init=False, repr=False)
    _root: float | Tensor = field(init=False, repr=False)

    __repr__ = Constraint.__repr__
    __eq__ = object.__eq__  # tensors cannot be compared by ==
    __hash__ = object.__hash__

    def __post_init__(self) -> None:
        mass = checks.radius("mass", self.mass)
        object.__setattr__(self, "mass", mass)
        # Divisions and roots are made once, and exactly.
        inverse, root = 1.0 / mass, mass**0.5
        if isinstance(mass, Tensor):
            exact = mass.double()
            inverse, root = (1.0 / exact).to(mass.dtype), exact.sqrt().to(mass.dtype)
        object.__setattr__(self, "_inverse", inverse)
        object.__setattr__(self, "_root", root)

    # --- layout -------------------------------------------------------------------------

    def bind(self, shapes: Sequence[torch.Size]) -> Massive:
        for shape in shapes:
            if isinstance(self.mass, Tensor) and not _broadcasts(self.mass.shape, shape):
                raise ConstraintError(
                    f"mass of shape {tuple(self.mass.shape)} does not broadcast to "
                    f"{tuple(shape)}, the shape of the weight"
                )
        return self

    def batch_key(self, shape: torch.Size) -> tuple[object, ...] | None:  # type: ignore[override]
        return (self.mass,) if isinstance(self.mass, float) else None

    def to_batch(self, tensor: Tensor, batch_dims: int = 0) -> Tensor:
        if isinstance(self.mass, Tensor):
            return tensor
        return tensor if tensor.dim() == 1 and not batch_dims else tensor.flatten(batch_dims)

    def part(
        self, shape: torch.Size, first: Sequence[int], size: Sequence[int], over: Alone
    ) -> Massive:
        mass = self.mass
        if isinstance(mass, Tensor):
            mass = part_of(mass, shape, first, size)
        return replace(self, mass=mass)

    def for_members(self, owns: Sequence[Any], dims: int) -> Massive:
        masses = [own.mass for own in owns if isinstance(own, Massive)]
        if len(masses) == len(owns) and all(isinstance(mass, float) for mass in masses):
            if len(set(masses)) == 1:
                return self
            return replace(self, mass=torch.tensor(masses).double().view(-1, *[1] * dims))
        super().for_members(owns, dims)
        return self

    def check_dtype(self, dtype: torch.dtype) -> None:
        check_scale("mass", self.mass, dtype)

    def describe(self) -> dict[str, Any]:
        return {"kind": "Massive", "mass": self.mass}

    # --- geometry -----------------------------------------------------------------------

    def impulse(
        self,
        state: State,
        gradient: Tensor | None,
        weight: Scalar,
        scale: Scalar,
        draw: Draw | None,
    ) -> Vector:
        """weight · G + scale · M^½ R: the noise of O is as large as the momenta are (2.37)."""
        return super().impulse(state, gradient, weight, scale, self._drawn(draw, self._root))

    def euler(
        self, state: State, gradient: Tensor, step: Scalar, scale: Scalar, draw: Draw | None
    ) -> tuple[Tensor, Tensor | None]:
        """q − step · M⁻¹G + scale · M^{−½} R, as O and A at once in the limit of friction."""
        inverse = like(self._inverse, gradient)
        drawn = self._drawn(self._drawn(draw, self._root), self._inverse)
        return super().euler(state, gradient * inverse, step, scale, drawn)

    def velocity(self, state: State) -> Tensor:
        assert state.momentum is not None
        return state.momentum * like(self._inverse, state.momentum)

    def kinetic_terms(self, state: State) -> Tensor:
        """½pᵀM⁻¹p of each copy."""
        assert state.momentum is not None
        return rows_of(self.velocity(state) * state.momentum) / 2

    @staticmethod
    def _drawn(draw: Draw | None, factor: float | Tensor) -> Draw | None:
        """Numbers of a source, times a factor."""
        if draw is None:
            return None
        return lambda reference: draw(reference) * like(factor, reference)


def _broadcasts(mass: torch.Size, weight: torch.Size) -> bool:
    """Whether there is one mass for each entry of a weight, or for its rows."""
    try:
        return torch.broadcast_shapes(mass, weight) == weight
    except RuntimeError:
        return False
