"""The Lagrange multiplier of the orthogonality constraint, solved in s × s."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from colangevin.constraints.sums import ALONE, Alone


def quasi_newton(
    overlap: Tensor, gram: Tensor, tolerance: float, max_iterations: int, *, look_every: int = 1
) -> tuple[Tensor, Tensor, float, int]:
    """Solve (Q̄ − QΛ)ᵀ(Q̄ − QΛ) = I for a symmetric Λ by the quasi-Newton scheme (4.55).

    Every iterate of (4.55) has the form Q̄ − QL, and with S = QᵀQ̄ and M = Q̄ᵀQ̄

        (Q̄ − QL)ᵀ(Q̄ − QL) = M − LS − SᵀL + LL,

    so that the iteration L ← L + ½(M − LS − SᵀL + LL − I) runs on s × s matrices alone.

    Args:
        overlap: S, of shape (matrices, s, s).
        gram: M, of the same shape; it is overwritten.
        tolerance: stop when the largest entry of the residual is below it.
        max_iterations: the limit of iterations.
        look_every: iterations between two checks of the residual, which wait for an accelerator.

    Returns:
        The multiplier, the residual before its last update, that one's largest entry as a number
        (NaN where a matrix has one), and how many iterations were made.

    Example:
        >>> eye = torch.eye(2)[None]
        >>> multiplier, _, _, _ = quasi_newton(1.1 * eye, 1.21 * eye, 1e-6, 50)
        >>> bool((multiplier - 0.1 * eye).abs().max() < 1e-6)
        True
    """
    # The start Λ = sym(S) − I is exact to first order in Q̄ − Q, which leaves a residual of
    # second order.
    multiplier = _minus_eye(torch.add(overlap, overlap.mT).mul_(0.5), 1.0)
    excess = _minus_eye(gram, 1.0)
    error = math.nan
    room = Room(None, None, None)
    if not (torch.is_grad_enabled() and (overlap.requires_grad or gram.requires_grad)):
        room = Room(multiplier, torch.empty_like(overlap), torch.empty_like(overlap))
    for count in range(1, max_iterations + 1):
        # Twice the residual, 2(M − I − LS − SᵀL + LL), is X + Xᵀ with X = M − I + L(L − 2S):
        # one product.
        factor = torch.add(multiplier, overlap, alpha=-2.0, out=room.twice)
        mixed = torch.baddbmm(excess, multiplier, factor, out=room.mixed)
        twice = torch.add(mixed, mixed.mT, out=room.twice)
        multiplier = torch.add(multiplier, twice, alpha=0.25, out=room.multiplier)
        if count % look_every == 0 or count == max_iterations:
            error = 0.5 * largest(twice)
            if error <= tolerance or (math.isnan(error) and _rest_is_below(twice, 2 * tolerance)):
                break
    return multiplier, twice.mul_(0.5), error, count


class Room(NamedTuple):
    """Where an iteration writes; in new memory where autograd has to see it."""

    multiplier: Tensor | None
    mixed: Tensor | None
    twice: Tensor | None


def _rest_is_below(tensor: Tensor, limit: float) -> bool:
    """Whether no entry is beyond a limit but for NaNs, which are there to stay."""
    return not bool((tensor.abs() > limit).any())


def largest(tensor: Tensor) -> float:
    """The largest entry, whatever its sign, as a number; NaN if there is one.

    Example:
        >>> largest(torch.tensor([1.0, -2.0]))
        2.0
    """
    if tensor.numel() == 0:
        return 0.0
    low, high = torch.aminmax(tensor.detach())
    return max(-float(low), float(high))


def _minus_eye(matrix: Tensor, times: float) -> Tensor:
    """Subtract a multiple of the identity, in place."""
    matrix.diagonal(dim1=-2, dim2=-1).sub_(times)
    return matrix


CONDITION = 1e3
"""Of the Gram matrix: up to it one polish takes the rounding off its eigenvectors."""


def polar_factor(matrix: Tensor, over: Alone = ALONE) -> Tensor:
    """The nearest matrices with orthonormal columns, UVᵀ of the singular value decomposition.

    Where it is well conditioned, Q(QᵀQ)^(−1/2) from the s × s Gram matrix does, at a third of the
    cost.

    Args:
        matrix: a batch of them, or of some of their rows.
        over: adds up over all parts of the rows.

    Example:
        >>> polar_factor(torch.tensor([[3.0], [4.0]]))
        tensor([[0.6000],
                [0.8000]])
    """
    scale = over.largest(matrix)
    scaled = matrix / torch.where(scale > 0.0, scale, 1.0)
    values, vectors = torch.linalg.eigh(over.sum(scaled.mT @ scaled))
    if bool((values[..., 0] * CONDITION >= values[..., -1]).all()):
        inverse_root = (vectors * values.rsqrt().unsqueeze(-2)) @ vectors.mT
        return polish(scaled @ inverse_root, over)
    return polish(over.apply(_by_svd, scaled), over)


def _by_svd(matrix: Tensor) -> Tensor:
    left, _, right = torch.linalg.svd(matrix, full_matrices=False)
    return left @ right


def has_full_rank(matrix: Tensor) -> bool:
    """Whether every matrix has one nearest matrix with orthonormal columns.

    Example:
        >>> has_full_rank(torch.eye(3, 2)), has_full_rank(torch.zeros(3, 2))
        (True, False)
    """
    # In float64, because a random square matrix may be badly conditioned and is still fine.
    values = torch.linalg.svdvals(matrix.detach().cpu().double())
    rounding = 10.0 * torch.finfo(torch.float64).eps * max(matrix.shape[-2:])
    return bool((values[..., -1] > rounding * values[..., 0]).all())


def polish(factor: Tensor, over: Alone = ALONE) -> Tensor:
    """One Newton–Schulz step, which takes the rounding off columns that are all but orthonormal.

    Args:
        factor: as ``matrix`` of ``polar_factor``.
        over: likewise.

    Example:
        >>> polish(torch.tensor([[0.6001], [0.8001]]))
        tensor([[0.6000],
                [0.8000]])
    """
    return 1.5 * factor - 0.5 * factor @ over.sum(factor.mT @ factor)
