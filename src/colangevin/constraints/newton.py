"""Newton's method for the multipliers of a general constraint, over a batch of systems."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import Tensor

from colangevin.constraints.base import tolerance_for
from colangevin.errors import ConvergenceError

Equations: TypeAlias = Callable[[Tensor], "tuple[Tensor, Tensor]"]
"""Maps points (batch, n) to g (batch, m) and its Jacobian (batch, m, n)."""


def scale_of(jacobian: Tensor, point: Tensor) -> Tensor:
    """Σ_j |∂g_i/∂q_j||q_j|: the size of the terms that cancel in g, so of its rounding."""
    terms = (jacobian.abs() @ point.abs().unsqueeze(-1)).squeeze(-1)
    return terms.clamp_min(torch.finfo(point.dtype).tiny)


def solve(matrix: Tensor, right: Tensor) -> Tensor:
    """Solve the m × m systems of a batch; a singular one gives non-finite numbers."""
    solution, info = torch.linalg.solve_ex(matrix, right.unsqueeze(-1))
    return torch.where((info == 0)[:, None], solution.squeeze(-1), torch.nan)


class Progress:
    """Decides when an iteration has converged: at rounding level, or no longer improving."""

    def __init__(self, dtype: torch.dtype, tolerance: float | None) -> None:
        self.target = tolerance or 2 * torch.finfo(dtype).eps
        self.accepted = tolerance or tolerance_for(dtype)
        self.best = float("inf")

    def done(self, error: float) -> bool:
        """Whether to stop at this error; call once an iteration."""
        stalled = error > 0.5 * self.best and self.best <= self.accepted
        self.best = min(self.best, error)
        return error <= self.target or (stalled and error <= self.accepted)


def oblique(
    equations: Equations,
    proposal: Tensor,
    normals: Tensor,
    tolerance: float | None,
    max_iterations: int,
) -> tuple[Tensor, Tensor]:
    """Find λ with g(q̄ − ∇g(q_n)λ) = 0 (4.41): Newton with the matrix J(q)J(q_n)ᵀ.

    Args:
        equations: g and its Jacobian.
        proposal: q̄, of shape (batch, n).
        normals: J(q_n), of shape (batch, m, n).
        tolerance: largest |g|, relative to its scale, that ends the iteration.
        max_iterations: limit of the iteration.

    Returns:
        The projected points and λ.
    """
    progress = Progress(proposal.dtype, tolerance)
    multiplier = proposal.new_zeros(normals.shape[:2])
    point = proposal
    for _ in range(max_iterations):
        value, jacobian = equations(point)
        error = float((value / scale_of(jacobian, point)).abs().max())
        if progress.done(error):
            return point, multiplier
        multiplier = multiplier + solve(jacobian @ normals.mT, value)
        point = proposal - (normals.mT @ multiplier.unsqueeze(-1)).squeeze(-1)
    raise ConvergenceError(
        f"the projection onto the constraint did not converge in {max_iterations} iterations "
        f"(best residual {progress.best:.3g}); take smaller steps"
    )


def orthogonal(
    equations: Equations, proposal: Tensor, tolerance: float | None, max_iterations: int
) -> Tensor:
    """Find the q nearest to q̄ with g(q) = 0, so q = q̄ − ∇g(q)λ (4.42).

    Each iteration solves the problem linearised at q: λ = (JJᵀ)⁻¹(g + J(q̄ − q)).
    """
    progress = Progress(proposal.dtype, tolerance)
    point = proposal
    for _ in range(max_iterations):
        value, jacobian = equations(point)
        right = value + (jacobian @ (proposal - point).unsqueeze(-1)).squeeze(-1)
        multiplier = solve(jacobian @ jacobian.mT, right)
        moved = proposal - (jacobian.mT @ multiplier.unsqueeze(-1)).squeeze(-1)
        error = float((value / scale_of(jacobian, point)).abs().max())
        change = float((moved - point).abs().max() / moved.abs().max().clamp_min(1e-30))
        if progress.done(max(error, change)):
            return point
        point = moved
    raise ConvergenceError(
        f"the orthogonal projection onto the constraint did not converge in {max_iterations} "
        f"iterations (best residual {progress.best:.3g}); take smaller steps"
    )
