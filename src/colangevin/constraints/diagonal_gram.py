"""Orthogonal columns of free lengths: the Gram matrix of a weight is diagonal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor

from colangevin import checks
from colangevin.constraints.base import (
    Outcome,
    Scalar,
    State,
    Vector,
    add_scaled,
    inverse,
    tame,
)
from colangevin.constraints.matrices import Matrices
from colangevin.constraints.orthogonal import (
    CAPTURED_ITERATIONS,
    has_full_rank,
    largest,
    polar_factor,
)
from colangevin.errors import ConstraintError, ConvergenceError

ROUNDS = 30
"""Of polar factors and lengths, in turn, on the way to the nearest weight."""


@dataclass(frozen=True, eq=False, repr=False)
class DiagonalGram(Matrices):
    """w_i · w_j = 0 for all columns i ≠ j of a tall weight, for all rows of a wide one.

    Their lengths are free: ``Orthogonal`` with a scale for each column, which is learnt. With
    D = WᵀW, which is diagonal, the normals at W are WM, M symmetric with zeros on its diagonal, and
    (Π P)ᵢ = pᵢ − Σⱼ Mᵢⱼ wⱼ with Mᵢⱼ = (wᵢ·pⱼ + wⱼ·pᵢ)/(dᵢ + dⱼ). A step goes back to the constraint
    along the normals of its start, by the quasi-Newton scheme (4.55) with these quotients. Where
    that does not converge, and for first weights, W = Q diag(ℓ) with Q the polar factor of
    W̄ diag(ℓ) and ℓᵢ = qᵢ·w̄ᵢ, in turn: each round is nearer to W̄. At τ > 0 the density is
    exp(−loss/τ) with respect to the area of this surface.

    Args:
        tolerance: largest 2 |wᵢ·wⱼ| / (dᵢ + dⱼ) that ends the iteration; the default is 5e-7 in
            float32 and 1e-14 in float64.
        max_iterations: limit of the iteration.
        batch_dims: how many leading dimensions count separate matrices.
        blocks: how many matrices are stacked along the rows, each by itself.

    Example:
        >>> DiagonalGram().place(torch.tensor([[[3.0, 0.0], [0.0, 0.5], [0.0, 0.0]]]))
        tensor([[[3.0000, 0.0000],
                 [0.0000, 0.5000],
                 [0.0000, 0.0000]]])
    """

    tolerance: float | None = None
    max_iterations: int = 40
    batch_dims: int = 0
    blocks: int = field(default=1, kw_only=True)
    fallible: ClassVar[bool] = True
    quotient: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.tolerance is not None:
            checks.positive("tolerance", self.tolerance)
        checks.count("max_iterations", self.max_iterations)
        self._check_layout()

    def batch_key(self, shape: torch.Size) -> tuple[object, ...]:
        rows, columns = self.matrix(shape)
        return (max(rows, columns), min(rows, columns))

    def describe(self) -> dict[str, Any]:
        return {"kind": "DiagonalGram", "batch_dims": self.batch_dims, "blocks": self.blocks}

    # --- geometry -----------------------------------------------------------------------

    def place(self, position: Tensor) -> Tensor:
        """A nearest weight, of which there may be several."""
        if not bool(position.isfinite().all()):
            raise ConstraintError("a weight that is not finite cannot have orthogonal columns")
        if not has_full_rank(position):
            raise ConstraintError(
                "a weight without full rank, such as one of zeros, has no nearest weight with "
                "orthogonal columns; start from random weights"
            )
        return nearest(position)

    def residual(self, state: State) -> Tensor:
        """2 wᵢ·wⱼ / (dᵢ + dⱼ) for i ≠ j."""
        gram = state.position.mT @ state.position
        return _quotients(gram, _lengths(gram)) * 2.0

    def violated(self, position: Tensor) -> Tensor:
        return _off_diagonal(position.mT @ position)

    def tangent(self, state: State, vector: Tensor, slack: Tensor | None = None) -> Vector:
        position = state.position
        overlap = position.mT @ vector
        squares = _lengths(position.mT @ position)
        return Vector(vector - position @ _quotients(overlap + overlap.mT, squares))

    def drift(self, state: State, step: Scalar) -> State:
        """RATTLE (4.57): Q′ = Q + hP − QΛ, P ← P − QΛ/h; Π has to follow."""
        position, momentum = state.position, state.momentum
        assert momentum is not None
        proposal = add_scaled(position, momentum, step)
        moved, outcome = self._returned(position, proposal)
        momentum = add_scaled(momentum, moved - proposal, inverse(step))
        outcome = outcome.joined(state.outcome)
        return state._replace(position=moved, momentum=momentum, outcome=outcome)

    def project(self, state: State, position: Tensor, slack: Tensor | None) -> State:
        """Q′ = Q̄ − QΛ, along the normal space at the old point (4.53)."""
        moved, outcome = self._returned(state.position, position)
        return state._replace(position=moved, outcome=outcome.joined(state.outcome))

    def _returned(self, old: Tensor, proposal: Tensor) -> tuple[Tensor, Outcome]:
        """Q̄ − QΛ, and what happened.

        With S = QᵀQ̄ and M = Q̄ᵀQ̄ the Gram matrix is M − ΛS − SᵀΛ + ΛDΛ, so that the iteration runs
        in s × s as that of ``Orthogonal``.
        """
        limit = self.tolerance or (1e-14 if proposal.dtype == torch.float64 else 5e-7)
        reachable = max(limit, 8 * torch.finfo(proposal.dtype).eps)
        inner, overlap, gram = old.mT @ old, old.mT @ proposal, proposal.mT @ proposal
        squares, multiplier = _lengths(inner), torch.zeros_like(inner)
        count, error = 0, torch.full_like(inner[:, 0, 0], torch.inf)
        blind, most = self.captured, self.max_iterations
        most = min(CAPTURED_ITERATIONS, most) if blind else most
        while count < most and (blind or bool((error > limit).any())):
            count += 1
            mixed = multiplier @ overlap
            now = gram - mixed - mixed.mT + multiplier @ inner @ multiplier
            change = _quotients(now, squares)
            multiplier = multiplier + change
            error = change.abs().amax(dim=(-2, -1))
        moved = proposal - old @ multiplier
        # Once more from where it is: long steps have cost digits.
        gram = moved.mT @ moved
        moved = moved - moved @ _quotients(gram, _lengths(gram))
        failed = ~(error <= reachable)  # a NaN has failed as well
        if blind:  # it stays where it is
            return torch.where(failed[:, None, None], old, moved), Outcome(count)
        if bool(failed.any()):
            if not bool(proposal[failed].isfinite().all()):
                raise ConvergenceError("the proposed weight is not finite")
            moved[failed] = nearest(proposal[failed])
        return moved, Outcome(count, int(failed.sum()))

    def degrees_of_freedom(self, shapes: Sequence[torch.Size]) -> int:
        total = 0
        for shape in shapes:
            small = min(self.matrix(shape))
            total += shape.numel() - self.copies(shape) * small * (small - 1) // 2
        return total

    def cotangency(self, state: State) -> Tensor:
        assert state.momentum is not None
        overlap = _off_diagonal(state.position.mT @ state.momentum)
        size = _lengths(state.position.mT @ state.position).amax(dim=-1).sqrt()
        speed = state.momentum.square().sum(dim=-2).amax(dim=-1).sqrt()
        scale = (size * speed)[..., None, None].clamp_min(torch.finfo(overlap.dtype).tiny)
        return (overlap + overlap.mT) / scale


def _lengths(gram: Tensor) -> Tensor:
    """The squares of the lengths of columns, from their Gram matrix."""
    return gram.diagonal(dim1=-2, dim2=-1)


def _off_diagonal(matrix: Tensor) -> Tensor:
    return matrix - torch.diag_embed(matrix.diagonal(dim1=-2, dim2=-1))


def _quotients(matrix: Tensor, squares: Tensor) -> Tensor:
    """Entries off the diagonal over dᵢ + dⱼ."""
    sums = squares.unsqueeze(-1) + squares.unsqueeze(-2)
    return _off_diagonal(matrix / sums.clamp_min(torch.finfo(sums.dtype).tiny))


def nearest(matrix: Tensor) -> Tensor:
    """A matrix Q diag(ℓ) with orthogonal columns to which none near by is nearer.

    Example:
        >>> found = nearest(torch.tensor([[[2.0, 0.1], [0.1, 1.0]]]))[0]
        >>> bool((found[:, 0] @ found[:, 1]).abs() < 1e-6)
        True
    """
    matrix = tame(matrix)
    lengths = matrix.norm(dim=-2, keepdim=True)
    rounding = 4 * torch.finfo(matrix.dtype).eps
    for _ in range(ROUNDS):
        factor = polar_factor(matrix * lengths)
        before, lengths = lengths, (factor * matrix).sum(dim=-2, keepdim=True)
        if largest(lengths - before) <= rounding * largest(lengths):
            break
    return factor * lengths
