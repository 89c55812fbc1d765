"""A user's equations on batches of flat points, and Newton's method for their multipliers."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor
from torch.func import jacrev, vmap

from colangevin.constraints.base import tolerance_for
from colangevin.errors import ConstraintError, ConvergenceError

FEW = 4
"""Equations up to which one backward pass for each is faster than all of them by ``vmap``."""


@dataclass(frozen=True)
class System:
    """g on points q = θ, or q = (θ, ξ) with slack.

    Attributes:
        g: the user's function of parameters of these shapes.
        inequality: read g ≤ 0 as g + ξ² = 0.
        shapes: of the parameters, in the order of g's arguments.
    """

    g: Callable[..., Tensor]
    inequality: bool
    shapes: tuple[torch.Size, ...]

    @property
    def size(self) -> int:
        """Weights in θ."""
        return sum(shape.numel() for shape in self.shapes)

    def parts(self, flat: Tensor) -> list[Tensor]:
        """The user's parameters in one flat θ."""
        parts = flat.split([shape.numel() for shape in self.shapes])
        return [part.reshape(shape) for part, shape in zip(parts, self.shapes, strict=True)]

    def of_one(self, flat: Tensor) -> Tensor:
        """g of one flat θ, as a vector."""
        return self.g(*self.parts(flat)).reshape(-1)

    def values(self, position: Tensor) -> Tensor:
        """g of a batch of θ."""
        # One system needs no vmap, so that a g which vmap cannot trace still works.
        if position.shape[0] == 1:
            return self.of_one(position[0]).unsqueeze(0)
        return vmap(self.of_one)(position)

    def linearise(self, position: Tensor) -> tuple[Tensor, Tensor]:
        """g and ∂g/∂θ; in reverse mode, because m ≤ n."""
        # The rows are independent, so the gradient of a sum over them has the gradients of all.
        with torch.enable_grad():
            leaf = position.detach().requires_grad_()
            value = self.values(leaf)
            parts = value.unbind(1)
        count = len(parts)
        if count > FEW or not value.requires_grad:
            return self._linearise_at_once(position)
        slopes = [_slope(part, leaf, keep=i + 1 < count) for i, part in enumerate(parts)]
        return value.detach(), torch.stack(slopes, dim=1)

    def _linearise_at_once(self, position: Tensor) -> tuple[Tensor, Tensor]:
        derivative = jacrev(self._twice, has_aux=True)
        if position.shape[0] == 1:
            jacobian, value = derivative(position[0])
            return value.unsqueeze(0), jacobian.unsqueeze(0)
        jacobian, value = vmap(derivative)(position)
        return value, jacobian

    def _twice(self, flat: Tensor) -> tuple[Tensor, Tensor]:
        value = self.of_one(flat)
        return value, value

    def equations(self, point: Tensor) -> tuple[Tensor, Tensor]:
        """g + ξ² and its Jacobian on the points q."""
        position, slack = self.split(point)
        value, jacobian = self.linearise(position)
        if slack is None:
            return value, jacobian
        slopes = torch.diag_embed(2 * slack)
        return value + slack.square(), torch.cat([jacobian, slopes], dim=-1)

    def left(self, point: Tensor) -> Tensor:
        """g + ξ² alone."""
        position, slack = self.split(point)
        value = self.values(position)
        return value if slack is None else value + slack.square()

    @staticmethod
    def join(main: Tensor, slack: Tensor | None) -> Tensor:
        """q from θ and ξ."""
        return main if slack is None else torch.cat([main, slack], dim=-1)

    def split(self, joined: Tensor) -> tuple[Tensor, Tensor | None]:
        """θ and ξ from q."""
        if not self.inequality:
            return joined, None
        return joined[:, : self.size], joined[:, self.size :]


def _slope(values: Tensor, leaf: Tensor, keep: bool) -> Tensor:
    ones = torch.ones_like(values)
    return torch.autograd.grad(values, leaf, ones, retain_graph=keep, materialize_grads=True)[0]


def check_arity(function: Callable[..., object], count: int) -> None:
    """Refuse a function that cannot take so many parameters.

    Raises:
        ConstraintError: naming its signature.
    """
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(*range(count))
    except TypeError as error:
        raise ConstraintError(
            f"g{signature} cannot take the {count} parameters of its group: {error}"
        ) from error


def arity(function: Callable[..., object]) -> int:
    """How many parameters g takes: its positional arguments without default."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return 1
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return 2
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(p.kind in positional and p.default is p.empty for p in parameters)


# --- Newton's method for the multipliers, over a batch of systems ---------------------------------

Equations: TypeAlias = Callable[[Tensor], "tuple[Tensor, Tensor]"]
"""Maps points (batch, n) to g (batch, m) and its Jacobian (batch, m, n)."""

Values: TypeAlias = Callable[[Tensor], Tensor]
"""Maps points (batch, n) to g (batch, m)."""


def scale_of(jacobian: Tensor, point: Tensor) -> Tensor:
    """Σ_j |∂g_i/∂q_j||q_j|: the size of the terms that cancel in g, so of its rounding."""
    return _terms(jacobian.abs(), point.abs())


def _terms(slopes: Tensor, size: Tensor) -> Tensor:
    """Σ_j of such terms, from absolute values."""
    terms = (slopes @ size.unsqueeze(-1)).squeeze(-1)
    return terms.clamp_min(torch.finfo(size.dtype).tiny)


def rounding_scale(slopes: Tensor, point: Tensor, size: Tensor) -> Tensor:
    """``scale_of`` for a point that was reached from a proposal, whose rounding it keeps.

    Where a coordinate has come down to almost 0, its size is no measure of its accuracy.

    Args:
        slopes: |∂g/∂q|, which like the next one an iteration may work out once.
        point: q.
        size: |q̄|, of the proposal.
    """
    return _terms(slopes, torch.maximum(point.abs(), size))


def solve(matrix: Tensor, right: Tensor) -> Tensor:
    """Solve the m × m systems of a batch; a singular one gives non-finite numbers."""
    solution, info = torch.linalg.solve_ex(matrix, right.unsqueeze(-1))
    return torch.where((info == 0)[:, None], solution.squeeze(-1), torch.nan)


def inverse_of(matrix: Tensor) -> Tensor:
    """The inverses of a batch of m × m matrices; that of a singular one is not finite."""
    inverse, info = torch.linalg.inv_ex(matrix)
    return torch.where((info == 0)[:, None, None], inverse, torch.nan)


def limits(dtype: torch.dtype, tolerance: float | None) -> tuple[float, float]:
    """The errors that an iteration aims at, and that it accepts if it no longer improves."""
    return tolerance or 2 * torch.finfo(dtype).eps, tolerance or tolerance_for(dtype)


def converged(error: float, best: float, aim: float, accepted: float) -> bool:
    """Whether an iteration may stop: at rounding level, or no longer improving on its best.

    Example:
        >>> converged(1e-3, 1e-3, 1e-7, 1e-6), converged(9e-7, 9e-7, 1e-7, 1e-6)
        (False, True)
    """
    stalled = error > 0.5 * best and best <= accepted
    return error <= aim or (stalled and error <= accepted)


SLOW = 0.1
"""An iteration that leaves more than this share of the error asks for a new Jacobian."""


def oblique(
    equations: Equations,
    values: Values,
    proposal: Tensor,
    normals: Tensor,
    tolerance: float | None,
    max_iterations: int,
) -> tuple[Tensor, Tensor, int]:
    """Find λ with g(q̄ − ∇g(q_n)λ) = 0 (4.41): Newton with the matrix J(q)J(q_n)ᵀ.

    A Jacobian costs many times what g does, so J(q_n) serves as J(q) for as long as the
    error falls quickly.

    Args:
        equations: g and its Jacobian.
        values: g alone.
        proposal: q̄, of shape (batch, n).
        normals: J(q_n), of shape (batch, m, n).
        tolerance: largest |g|, relative to its scale, that ends the iteration.
        max_iterations: limit of the iteration.

    Returns:
        The projected points, λ, and how many iterations it took.
    """
    (aim, accepted), best = limits(proposal.dtype, tolerance), math.inf
    multiplier = proposal.new_zeros((*normals.shape[:2], 1))
    # What does not change is worked out once: an iteration is a handful of small operations.
    slopes, size = normals.abs(), proposal.abs()
    inverse = inverse_of(normals @ normals.mT)
    point, last = proposal, SLOW
    for count in range(max_iterations):
        value = values(point)
        error = float((value / rounding_scale(slopes, point, size)).abs().max())
        if converged(error, best, aim, accepted):
            return point, multiplier.squeeze(-1), count
        best = min(best, error)
        if not error <= SLOW * last:
            inverse = inverse_of(equations(point)[1] @ normals.mT)
        last = error
        multiplier = torch.baddbmm(multiplier, inverse, value.unsqueeze(-1))
        point = torch.baddbmm(proposal.unsqueeze(-1), normals.mT, multiplier, alpha=-1.0).squeeze(
            -1
        )
    relative = (values(point) / rounding_scale(slopes, point, size)).abs()
    failure = ConvergenceError(
        f"the projection onto the constraint did not converge in {max_iterations} iterations "
        f"(best residual {best:.3g}); take smaller steps"
    )
    failure.failed = ~(relative <= accepted).all(dim=1)
    failure.rest = point, multiplier.squeeze(-1), max_iterations
    raise failure


def orthogonal(
    equations: Equations, proposal: Tensor, tolerance: float | None, max_iterations: int
) -> tuple[Tensor, int]:
    """Find the q nearest to q̄ with g(q) = 0, so q = q̄ − ∇g(q)λ (4.42).

    Each iteration goes back to the linearised constraint, and along it towards q̄:
    q ← q − J⁺g + θΠ(q̄ − q). A fixed θ = 1 would diverge for a q̄ that is farther away than
    the radius of curvature, so each system takes its θ from its last two steps (the secant
    rule of Barzilai and Borwein).

    Returns:
        The projected points, and how many iterations it took.
    """
    (aim, accepted), best = limits(proposal.dtype, tolerance), math.inf
    point, last = proposal, None
    rate = torch.ones_like(proposal[:, :1])
    for count in range(max_iterations):
        value, jacobian = equations(point)
        gram, gap = jacobian @ jacobian.mT, proposal - point
        along_normals = solve(gram, (jacobian @ gap.unsqueeze(-1)).squeeze(-1))
        tangent = gap - (jacobian.mT @ along_normals.unsqueeze(-1)).squeeze(-1)
        back = (jacobian.mT @ solve(gram, value).unsqueeze(-1)).squeeze(-1)
        scale = rounding_scale(jacobian.abs(), point, proposal.abs())
        error = float((value / scale).abs().max())
        size = float(point.abs().max().clamp_min(1e-30))
        error = max(error, float((tangent - back).abs().max()) / size)
        if converged(error, best, aim, accepted):
            return point, count
        best = min(best, error)
        if last is not None:
            turned = last - tangent
            secant = (last * turned).sum(-1, keepdim=True) / turned.square().sum(-1, keepdim=True)
            rate = (rate * secant).nan_to_num(1.0).clamp(0.1, 10.0)
        last = tangent
        point = point - back + rate * tangent
    raise ConvergenceError(
        f"the orthogonal projection onto the constraint did not converge in {max_iterations} "
        f"iterations (best residual {best:.3g}); take smaller steps"
    )


def least_norm(
    equations: Equations, point: Tensor, tolerance: float | None, max_iterations: int
) -> Tensor:
    """Find a q near q̄ with g(q) = 0, from as far as it may be: q ← q − Jᵀ(JJᵀ)⁻¹g.

    ``orthogonal`` finds the nearest point, but only from within the manifold's curvature.
    """
    (aim, accepted), best = limits(point.dtype, tolerance), math.inf
    for _ in range(max_iterations):
        value, jacobian = equations(point)
        error = float((value / scale_of(jacobian, point)).abs().max())
        if converged(error, best, aim, accepted):
            return point
        best = min(best, error)
        multiplier = solve(jacobian @ jacobian.mT, value)
        point = point - (jacobian.mT @ multiplier.unsqueeze(-1)).squeeze(-1)
    raise ConvergenceError(
        f"Newton's method found no point of the constraint in {max_iterations} iterations "
        f"(best residual {best:.3g})"
    )
