"""The orthogonality constraint: weights on the Stiefel manifold."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from colangevin import checks
from colangevin.constraints.base import (
    Constraint,
    Outcome,
    Scalar,
    State,
    Vector,
    add_scaled,
    check_scale,
    inverse,
    tracked,
)
from colangevin.constraints.matrices import Matrices
from colangevin.constraints.sums import ALONE, Alone, Cut
from colangevin.errors import ConstraintError, ConvergenceError

RMS, RELU = "rms", "relu"
BLIND_ITERATIONS = 12
"""Iterations between two checks of the residual on an accelerator: a check waits for the device."""

CAPTURED_ITERATIONS = 24
"""Iterations where a graph captures the step, so that no check can end them."""

CONDITION = 1e3
"""Of the Gram matrix: up to it one polish takes the rounding off its eigenvectors."""

FAR = 2.0
"""Entries of Q̄ᵀQ̄ from which on the s × s residual, a sum of such terms, loses digits."""


@dataclass(frozen=True, eq=False, repr=False)
class Orthogonal(Matrices):
    """QᵀQ = scale²·I for a tall weight Q = W, WWᵀ = scale²·I for a wide one (4.4, 4.50).

    Convolution kernels are read as out × (in · height · width). The projection back to the
    manifold is the quasi-Newton scheme (4.55), until ``tolerance`` or ``max_iterations``;
    where that does not converge (large steps) the polar factor takes its place. The new state's
    ``outcome`` counts both. In steps that a graph captures there are always 24 iterations, and a
    weight for which they are not enough stays where it is and loses its momentum.

    Args:
        tolerance: largest entry of QᵀQ/scale² − I that ends the iteration; the default is
            5e-7 in float32 and 1e-14 in float64.
        max_iterations: limit of the iteration.
        scale: singular value of the weight, or "rms" for √(rows / columns): then outputs have the
            root mean square of inputs that lie in the weight's row space; or "relu" for √2, which
            makes up for the half of the signal that a ReLU takes away.
        batch_dims: how many leading dimensions count separate matrices.
        blocks: how many matrices are stacked along the rows, each orthogonal by itself: 3 for
            ``in_proj_weight`` of ``nn.MultiheadAttention``, 4 for ``weight_hh_l0`` of ``nn.LSTM``.

    Example:
        >>> weight = Orthogonal().place(torch.tensor([[[3.0], [4.0]]]))
        >>> weight
        tensor([[[0.6000],
                 [0.8000]]])
    """

    tolerance: float | None = None
    max_iterations: int = 40
    scale: Any = 1.0
    batch_dims: int = 0
    blocks: int = field(default=1, kw_only=True)
    fallible: ClassVar[bool] = True
    quotient: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.tolerance is not None:
            checks.positive("tolerance", self.tolerance)
        checks.count("max_iterations", self.max_iterations)
        if isinstance(self.scale, str):
            checks.choice("scale", self.scale, (RMS, RELU))
            if self.scale == RELU:
                object.__setattr__(self, "scale", math.sqrt(2.0))
        else:
            object.__setattr__(self, "scale", checks.positive("scale", self.scale))
        self._check_layout()

    # --- layout -------------------------------------------------------------------------

    def bind(self, shapes: Sequence[torch.Size]) -> Constraint:
        super().bind(shapes)
        for shape in shapes:
            if self.scale == RMS and shape.numel():
                rows, columns = self.matrix(shape)
                return replace(self, scale=math.sqrt(rows / columns))
        return self

    def tolerance_in(self, dtype: torch.dtype) -> float:
        """The residual that ends the iteration in a dtype."""
        return self.tolerance or (1e-14 if dtype == torch.float64 else 5e-7)

    def batch_key(self, shape: torch.Size) -> tuple[object, ...]:
        rows, columns = self.matrix(shape)
        return (self.scale, max(rows, columns), min(rows, columns))

    def cut(self, shape: torch.Size, dim: int) -> Cut:
        """Along the long side the parts of S = QᵀQ̄ and M = Q̄ᵀQ̄ add up; a square has two."""
        if dim < self.batch_dims:
            return Cut.BETWEEN
        rows, columns = self.matrix(shape)
        down = dim == self.batch_dims
        if (down and self.blocks > 1) or (rows < columns if down else rows > columns):
            return Cut.NEVER
        return Cut.THROUGH

    def describe(self) -> dict[str, Any]:
        own = {"kind": "Orthogonal", "scale": self.scale, "batch_dims": self.batch_dims}
        return own if self.blocks == 1 else {**own, "blocks": self.blocks}

    def check_dtype(self, dtype: torch.dtype) -> None:
        check_scale("scale", self.scale, dtype)

    # --- geometry -----------------------------------------------------------------------

    def place(self, position: Tensor) -> Tensor:
        """The nearest point, which for a random weight is an orthogonal initialisation."""
        if not bool(position.isfinite().all()):
            raise ConstraintError("a weight that is not finite cannot be made orthogonal")
        if not has_full_rank(position):
            raise ConstraintError(
                "a weight without full rank, such as one of zeros, has no nearest orthogonal "
                "matrix; start from random weights"
            )
        return polar_factor(position) * self.scale

    def _over_scale(self, *pairs: tuple[Tensor, Tensor]) -> tuple[Tensor, ...]:
        """xᵀy / scale², the s × s overlaps of pairs of batches."""
        products = self.over.sums(*(x.mT @ y for x, y in pairs))
        if self.scale == 1.0:
            return products
        return tuple(product / self.scale**2 for product in products)

    def violated(self, position: Tensor) -> Tensor:
        return self.scale**2 * self.residual(State(position))

    def residual(self, state: State) -> Tensor:
        eye = torch.eye(state.position.shape[-1], dtype=state.position.dtype)
        (gram,) = self._over_scale((state.position, state.position))
        return gram - eye.to(state.position.device)

    def tangent(self, state: State, vector: Tensor, slack: Tensor | None = None) -> Vector:
        """Π_Q P = P − ½Q(PᵀQ + QᵀP)/scale² (4.15)."""
        (overlap,) = self._over_scale((state.position, vector))
        return Vector(add_scaled(vector, _times(state.position, overlap + overlap.mT), -0.5))

    def drift(self, state: State, step: Scalar) -> State:
        """RATTLE (4.57) without its closing projection: Q' = Q + hP − QΛ, P ← P − QΛ/h.

        A normal part of P, P + Qσ, only shifts Λ by hσ. So neither the kick before nor the
        momentum after needs Π, and the step takes three big products: QᵀQ̄, Q̄ᵀQ̄ and QΛ. Written
        as P ← P − QΛ/h, Q ← Q + hP the last one goes straight into P, and of the matrices of the
        weight's size Q̄ is the only one in new memory, and not for long.
        """
        position, momentum = state.position, state.momentum
        assert momentum is not None
        multiplier, outcome, bad = self._solve(position, add_scaled(position, momentum, step))
        if bad is None or self.captured:
            momentum = _add_product(momentum, position, multiplier, -inverse(step))
            if bad is not None:
                momentum = momentum.masked_fill_(bad[0][:, None, None], 0.0)
            position = add_scaled(position, momentum, step, out=position)
        else:
            proposal = add_scaled(position, momentum, step)
            position = self._mend(position, proposal, multiplier, *bad)
            momentum = add_scaled(momentum, position - proposal, 1.0 / step)
        outcome = outcome.joined(state.outcome)
        return state._replace(position=position, momentum=momentum, outcome=outcome)

    def project(self, state: State, position: Tensor, slack: Tensor | None) -> State:
        """Q' = Q̄ − QΛ, along the normal space at the old point (4.53), written over Q̄."""
        multiplier, outcome, bad = self._solve(state.position, position)
        if self.captured and bad is not None:
            moved = _add_product(position, state.position, multiplier, -1.0)
            position = torch.where(bad[0][:, None, None], state.position, moved)
        elif bad is None:
            position = _add_product(position, state.position, multiplier, -1.0)
        else:
            position = self._mend(state.position, position, multiplier, *bad)
        return state._replace(position=position, outcome=outcome.joined(state.outcome))

    def _solve(
        self, position: Tensor, proposal: Tensor
    ) -> tuple[Tensor, Outcome, tuple[Tensor, Tensor] | None]:
        """Λ, matrices × s × s, and what happened; None, or two masks where something is amiss.

        They are of the matrices whose iteration did not converge, and of those whose proposal is
        so far off that Λ has lost digits.
        """
        tolerance = self.tolerance_in(proposal.dtype)
        look_every = 1 if proposal.device.type == "cpu" else BLIND_ITERATIONS
        limit = self.max_iterations
        if self.captured:
            look_every, limit = 0, min(CAPTURED_ITERATIONS, limit)
        gram, overlap = self._over_scale((proposal, proposal), (position, proposal))
        del proposal  # the iteration can have its memory
        # The largest entry of such a matrix is on its diagonal.
        lengths = gram.diagonal(dim1=-2, dim2=-1).clone()
        multiplier, residual, error, iterations = quasi_newton(
            overlap, gram, tolerance, limit, look_every=look_every
        )
        # A tolerance below rounding cannot be reached: that is no failure.
        reachable = max(tolerance, 4 * torch.finfo(residual.dtype).eps)
        if not self.captured and error <= reachable and largest(lengths) <= FAR:
            return multiplier, Outcome(iterations), None
        failed = ~(residual.abs().amax(dim=(-2, -1)) <= reachable)  # a NaN has failed as well
        far = lengths.amax(dim=-1) > FAR
        count = 0 if self.captured else int(failed.sum())
        return multiplier, Outcome(iterations, count), (failed, far)

    def _mend(
        self, position: Tensor, proposal: Tensor, multiplier: Tensor, failed: Tensor, far: Tensor
    ) -> Tensor:
        """The new weights where some have gone far, or the iteration has failed."""
        moved = proposal - _times(position, multiplier)
        moved[far] = polish(moved[far] / self.scale, self.over) * self.scale
        if bool(failed.any()):
            moved[failed] = self._polar(proposal[failed])
        return moved

    def _polar(self, proposal: Tensor) -> Tensor:
        if bool(self.over.sum((~proposal.isfinite()).sum())):
            raise ConvergenceError("the proposed orthogonal weight is not finite")
        return polar_factor(proposal, self.over) * self.scale

    def degrees_of_freedom(self, shapes: Sequence[torch.Size]) -> int:
        total = 0
        for shape in shapes:
            small = min(self.matrix(shape))
            total += shape.numel() - self.copies(shape) * small * (small + 1) // 2
        return total

    def cotangency(self, state: State) -> Tensor:
        assert state.momentum is not None
        overlap = self.over.sum(state.position.mT @ state.momentum)
        squares = self.over.sum(state.momentum.square().sum(dim=-2))
        length = squares.amax(dim=-1).sqrt()[..., None, None] * self.scale
        return (overlap + overlap.mT) / length.clamp_min(torch.finfo(overlap.dtype).tiny)


def _times(matrix: Tensor, small: Tensor) -> Tensor:
    """matrix @ small for a symmetric s × s factor, in the memory layout of ``matrix``.

    A wide weight is handled as the transpose of its memory. A product in the other layout
    would make every later sum with it walk across memory.
    """
    if matrix.stride(-1) == 1 or matrix.shape[-1] == 1:
        return matrix @ small
    return (small @ matrix.mT).mT


def _add_product(total: Tensor, matrix: Tensor, small: Tensor, factor: Scalar) -> Tensor:
    """total + factor · matrix @ small for a symmetric s × s factor, likewise; in place."""
    if isinstance(factor, Tensor):
        small, factor = small * factor, 1.0
    upright = total.stride(-1) == 1 or total.shape[-1] == 1
    left, right = (matrix, small) if upright else (small, matrix.mT)
    target = total if upright else total.mT
    if tracked(total, matrix, small):
        found = target.baddbmm(left, right, alpha=factor)
        return found if upright else found.mT
    target.baddbmm_(left, right, alpha=factor)
    return total


# --- the multiplier, solved in s × s ------------------------------------------------------------


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
        look_every: iterations between two checks of the residual, which wait for an accelerator; 0
            for none, so that all iterations are made.

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
    # Where an iteration writes; in new memory where autograd has to see it.
    places: tuple[Tensor | None, Tensor | None, Tensor | None] = (None, None, None)
    if not tracked(overlap, gram):
        places = (multiplier, torch.empty_like(overlap), torch.empty_like(overlap))
    for count in range(1, max_iterations + 1):
        # Twice the residual, 2(M − I − LS − SᵀL + LL), is X + Xᵀ with X = M − I + L(L − 2S):
        # one product.
        factor = torch.add(multiplier, overlap, alpha=-2.0, out=places[2])
        mixed = torch.baddbmm(excess, multiplier, factor, out=places[1])
        twice = torch.add(mixed, mixed.mT, out=places[2])
        multiplier = torch.add(multiplier, twice, alpha=0.25, out=places[0])
        if look_every and (count % look_every == 0 or count == max_iterations):
            error = 0.5 * largest(twice)
            if error <= tolerance or (math.isnan(error) and _rest_is_below(twice, 2 * tolerance)):
                break
    return multiplier, twice.mul_(0.5), error, count


def _rest_is_below(tensor: Tensor, limit: float) -> bool:
    """Whether no entry is beyond a limit but for NaNs, which are there to stay."""
    return not bool((tensor.abs() > limit).any())


def largest(tensor: Tensor) -> float:
    """The largest entry, whatever its sign, as a number; NaN if there is one.

    An accelerator is waited for once.

    Example:
        >>> largest(torch.tensor([1.0, -2.0]))
        2.0
    """
    if tensor.numel() == 0:
        return 0.0
    low, high = torch.aminmax(tensor.detach())
    return max(-float(low), float(high)) if tensor.is_cpu else float(torch.maximum(-low, high))


def _minus_eye(matrix: Tensor, times: float) -> Tensor:
    """Subtract a multiple of the identity, in place."""
    matrix.diagonal(dim1=-2, dim2=-1).sub_(times)
    return matrix


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
