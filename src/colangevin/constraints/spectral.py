"""The spectral norm: the largest singular value of a weight is bounded, or kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from colangevin import checks
from colangevin.constraints.base import (
    NEAR_BOUND,
    Scalar,
    State,
    Vector,
    add_scaled,
    check_scale,
    tame,
)
from colangevin.constraints.matrices import Matrices
from colangevin.constraints.walls import per_copy, reflected
from colangevin.errors import ConstraintError

REFLECTIONS = 10
"""Of a path, for each singular value: at most so many are followed."""
ITERATIONS = 30
"""Of Newton's method on convex functions of one number, which needs three to six."""

CLOSE = 1e-14
"""Of singular values to r, relative to it, where Newton's method ends."""


class Spectrum(NamedTuple):
    """Singular values σ, rising, of matrices W = U diag(σ) Vᵀ, in double precision.

    Attributes:
        matrix: W.
        values: σ.
        right: V.
    """

    matrix: Tensor
    values: Tensor
    right: Tensor

    @property
    def top(self) -> Tensor:
        """uvᵀ of the largest singular value, its gradient."""
        right = self.right[..., -1:]
        left = self.matrix @ right
        return left / left.norm(dim=-2, keepdim=True) @ right.mT


@dataclass(frozen=True, eq=False, repr=False)
class Spectral(Matrices):
    """σ ≤ r for all singular values σ of a weight, or with ``equality`` r for the largest of them.

    Matrices are read as in ``Orthogonal``. At τ = 0 a step ends at the nearest such matrix:
    singular values above r become r, and with ``equality`` the largest one is raised to r where it
    has fallen below. The momentum loses what changes these singular values. At τ > 0 the density is
    exp(−loss/τ): on the ball, in the flat space of matrices, with straight paths that the wall
    reflects; with ``equality`` on the surface σ₁ = r, with the area that it has in this space.

    Args:
        radius: r, a positive number.
        equality: keep the largest singular value instead of bounding all.
        batch_dims: how many leading dimensions count separate matrices.
        blocks: how many matrices are stacked along the rows, each by itself.

    Example:
        >>> Spectral(radius=2.0).place(torch.diag(torch.tensor([3.0, 1.0]))[None])
        tensor([[[2.0000, 0.0000],
                 [0.0000, 1.0000]]])
        >>> Spectral(radius=2.0, equality=True).place(torch.diag(torch.tensor([3.0, 1.5]))[None])
        tensor([[[2., 0.],
                 [0., 1.]]])
    """

    radius: float = 1.0
    equality: bool = False
    batch_dims: int = 0
    blocks: int = field(default=1, kw_only=True)
    walls: ClassVar[bool] = True
    capturable: ClassVar[bool] = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "radius", checks.positive("radius", self.radius))
        self._check_layout()

    # --- layout -------------------------------------------------------------------------

    def batch_key(self, shape: torch.Size) -> tuple[object, ...]:
        rows, columns = self.matrix(shape)
        return (self.radius, self.equality, max(rows, columns), min(rows, columns))

    def describe(self) -> dict[str, Any]:
        own = {"kind": "Spectral", "radius": self.radius, "equality": self.equality}
        return {**own, "batch_dims": self.batch_dims, "blocks": self.blocks}

    def check_dtype(self, dtype: torch.dtype) -> None:
        check_scale("radius", self.radius, dtype)

    # --- geometry -----------------------------------------------------------------------

    def place(self, position: Tensor) -> Tensor:
        """The nearest matrix of the ball; with ``equality`` the weight times a number."""
        found = spectrum(position)
        if not self.equality:
            return self._nearest(found, position.dtype)
        largest = found.values[..., -1]
        if not bool((largest > 0.0).all()):
            raise ConstraintError("a weight of zeros, or of NaN, has no largest singular value")
        return (found.matrix * (self.radius / largest)[..., None, None]).to(position.dtype)

    def _factors(self, found: Spectrum, dtype: torch.dtype) -> Tensor:
        """What the singular values of the nearest matrix are, relative to those of this one."""
        # A bound is not passed by rounding.
        slight = 0.0 if self.equality else 4.0 * torch.finfo(dtype).eps
        factors = (self.radius * (1.0 - slight) / found.values).clamp_max(1.0)
        inside = found.values <= self.radius
        if self.equality:
            factors[..., -1] = self.radius / found.values[..., -1]
            inside[..., -1] = False
        return torch.where(inside, 1.0, factors)

    def _nearest(self, found: Spectrum, dtype: torch.dtype) -> Tensor:
        """W − W V diag(1 − f) Vᵀ, with f of the singular values that change."""
        changed = found.right * (self._factors(found, dtype) - 1.0).unsqueeze(-2)
        return (found.matrix + found.matrix @ changed @ found.right.mT).to(dtype)

    def violated(self, position: Tensor) -> Tensor:
        values = torch.linalg.svdvals(position)
        return (
            values[..., 0] - self.radius if self.equality else (values - self.radius).clamp_min(0)
        )

    def residual(self, state: State) -> Tensor:
        """σ₁/r − 1, or what is above 0 of it."""
        largest = spectrum(state.position).values[..., -1] / self.radius - 1.0
        return largest if self.equality else largest.clamp_min(0.0)

    def at_bound(self, state: State) -> Tensor:
        """Singular values σ ≥ 0.98 r."""
        return spectrum(state.position).values >= (1.0 - NEAR_BOUND) * self.radius

    def tangent(self, state: State, vector: Tensor, slack: Tensor | None = None) -> Vector:
        """Π v = v − ⟨uvᵀ, v⟩ uvᵀ with the first singular vectors; the identity on the ball."""
        if not self.equality:
            return Vector(vector)
        return Vector(_without(vector, spectrum(state.position).top.to(vector.dtype)))

    def drift(self, state: State, step: Scalar) -> State:
        """A straight path that the wall reflects; with ``equality`` RATTLE.

        Where RATTLE has no solution, or would not lead back, the path is not gone and the momentum
        is turned round, which keeps volume and |p| as well.
        """
        assert state.momentum is not None
        position, momentum = exact(state.position), exact(tame(state.momentum))
        dtype, times = state.position.dtype, per_copy(step, position)
        if not self.equality:
            position, momentum = self._reflected(position, momentum, times)
            return state._replace(position=position.to(dtype), momentum=momentum.to(dtype))
        times = times[:, None, None]
        far, speed, good = self._rattle(position, momentum, times)
        back, _, fine = self._rattle(far, -speed, times)
        gap = (back - position).abs().amax(dim=(-2, -1))
        good &= fine & (gap <= 1e-8 * self.radius)
        good |= ~momentum.isfinite().all(dim=-1).all(dim=-1)  # NaN stays, for all to see
        kept = good[:, None, None]
        position, momentum = torch.where(kept, far, position), torch.where(kept, speed, -momentum)
        return state._replace(position=position.to(dtype), momentum=momentum.to(dtype))

    def _reflected(self, position: Tensor, momentum: Tensor, step: Tensor) -> tuple[Tensor, Tensor]:
        most = REFLECTIONS * position.shape[-1]
        return reflected(position, momentum, step, self._first_hit, most)

    def _first_hit(self, position: Tensor, way: Tensor) -> tuple[Tensor, Tensor]:
        """When straight paths leave the ball: σ₁ is convex, so Newton's method comes from above."""
        found = spectrum(position + way)
        share = 2.0 - (found.values[..., -1] > self.radius).to(way.dtype)
        normal = torch.zeros_like(position)
        out = (share < 2.0).nonzero().flatten()
        if not len(out):
            return share, normal
        start, line, place = position[out], way[out], torch.ones_like(share[out])
        found = Spectrum(*(part[out] for part in found))
        for _ in range(ITERATIONS):
            above = found.values[..., -1] - self.radius
            slope = (found.top * line).sum(dim=(-2, -1))
            nearer = torch.where(slope > 0.0, place - above / slope, 0.0).clamp_min(0.0)
            if not bool(((above > CLOSE * self.radius) & (nearer < place)).any()):
                break
            place = nearer
            found = spectrum(start + place[:, None, None] * line)
        # A path that starts on the wall and leaves it has share 0, also where it ends outside.
        share[out], normal[out] = place.clamp_max(1.0 - 1e-15), found.top
        return share, normal

    def _rattle(
        self, position: Tensor, momentum: Tensor, step: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Q′ = Q + hP − λuvᵀ with σ₁(Q′) = r, P′ = Π(Q′ − Q)/h, and where there is such a λ."""
        far, good = self._oblique(position, position + step * momentum)
        return far, _without((far - position) / step, spectrum(far).top), good

    def _oblique(self, position: Tensor, proposal: Tensor) -> tuple[Tensor, Tensor]:
        """Along the old normal back to σ₁ = r, which is convex in λ, and where that is possible."""
        normal = spectrum(position).top
        multiplier = torch.zeros_like(proposal[:, :1, :1])
        for _ in range(ITERATIONS):
            found = spectrum(proposal - multiplier * normal)
            above = found.values[..., -1:, None] - self.radius
            slope = (found.top * normal).sum(dim=(-2, -1), keepdim=True)
            if not bool((above.abs() > CLOSE * self.radius).any()):
                break
            multiplier = multiplier + above / slope
        moved = proposal - multiplier * normal
        missed = (spectrum(moved).values[..., -1] / self.radius - 1.0).abs()
        return moved, missed <= 100.0 * CLOSE

    def slide(self, state: State, step: Scalar) -> State:
        """The nearest matrix to q + hp, and of p what leaves the singular values that changed."""
        assert state.momentum is not None
        dtype = state.position.dtype
        found = spectrum(add_scaled(state.position, state.momentum, step))
        changed = (self._factors(found, dtype) != 1.0).to(found.values.dtype)
        if self.equality:
            changed[..., -1] = 1.0
        if not bool((changed != 0.0).any()):
            return state._replace(position=found.matrix.to(dtype))
        right = found.right * changed.unsqueeze(-2)
        left = found.matrix @ right
        left = left / left.norm(dim=-2, keepdim=True).clamp_min(torch.finfo(left.dtype).tiny)
        momentum = state.momentum.to(left.dtype)
        overlap = left.mT @ momentum @ right
        momentum = momentum - left @ ((overlap + overlap.mT) / 2) @ right.mT
        return state._replace(position=self._nearest(found, dtype), momentum=momentum.to(dtype))

    def project(self, state: State, position: Tensor, slack: Tensor | None) -> State:
        """The reflected path to the proposal; with ``equality`` along the old normal (4.41)."""
        old, dtype = exact(state.position), position.dtype
        position = exact(tame(position))
        if self.equality:
            far, good = self._oblique(old, position)
            good |= ~position.isfinite().all(dim=-1).all(dim=-1)
            far = torch.where(good[:, None, None], far, old)
        else:
            far = self._reflected(old, position - old, per_copy(1.0, old))[0]
        return state._replace(position=far.to(dtype))

    def land(self, state: State, position: Tensor, slack: Tensor | None) -> State:
        return state._replace(position=self._nearest(spectrum(position), position.dtype))

    def degrees_of_freedom(self, shapes: Sequence[torch.Size]) -> int:
        total = sum(shape.numel() for shape in shapes)
        return total - sum(map(self.copies, shapes)) if self.equality else total

    def cotangency(self, state: State) -> Tensor:
        momentum = state.momentum
        assert momentum is not None
        if not self.equality:
            return momentum - momentum
        along = (spectrum(state.position).top.to(momentum.dtype) * momentum).sum(dim=(-2, -1))
        return along / momentum.flatten(1).norm(dim=1).clamp_min(torch.finfo(along.dtype).tiny)


def _without(vector: Tensor, normal: Tensor) -> Tensor:
    """What is orthogonal to a unit vector."""
    return vector - (normal * vector).sum(dim=(-2, -1), keepdim=True) * normal


def spectrum(matrix: Tensor) -> Spectrum:
    """Singular values and right vectors, from the small Gram matrix in double precision.

    Half of the digits of the Gram matrix are enough for singular values that are not small. A
    matrix that is not finite has the values NaN.

    Example:
        >>> spectrum(torch.diag(torch.tensor([1.0, 2.0]))[None]).values
        tensor([[1., 2.]], dtype=torch.float64)
    """
    matrix = exact(tame(matrix))
    gram = matrix.mT @ matrix
    fine = gram.isfinite().all(dim=-1, keepdim=True).all(dim=-2, keepdim=True)
    values, right = torch.linalg.eigh(torch.where(fine, gram, 0.0))
    values = torch.where(fine.squeeze(-1), values.clamp_min(0.0).sqrt(), torch.nan)
    return Spectrum(matrix, values, right)


def exact(tensor: Tensor) -> Tensor:
    """In double precision, where the device has it."""
    return tensor if tensor.device.type == "mps" else tensor.double()
