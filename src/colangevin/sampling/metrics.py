"""The metric of free weights: coordinates in which the law is about round.

With a covariance Σ = LLᵀ and q = Lz the chains move as if z were the weights. A linear change of
variables changes no law, whatever Σ is; it changes how fast chains cross it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor

from colangevin.constraints import State, Unconstrained, Vector
from colangevin.constraints.base import Draw, Scalar, add_scaled
from colangevin.sampling import convergence

DENSE = 1000
"""Numbers up to which "auto" learns a full matrix, if that pays; beyond, its diagonal."""
PRIOR = 5.0
"""Draws that the typical variance counts as, as in Stan."""
AUTO, FULL, DIAGONAL = "auto", "dense", "diagonal"


@dataclass(frozen=True, eq=False, repr=False)
class Whitened(Unconstrained):
    """All of space, with the kinetic energy of z = L⁻¹q: momenta Lᵀp, dq = L(Lᵀp) dt.

    Attributes:
        factor: L, lower triangular, or its diagonal; None before a law is known: L = 1.

    Example:
        >>> metric = Whitened()
        >>> metric.adopt(torch.tensor([[4.0, 0.0], [0.0, 9.0]]))
        >>> state = State(torch.zeros(1, 2), momentum=torch.ones(1, 2))
        >>> metric.drift(state, 0.5).position
        tensor([[1.0000, 1.5000]])
    """

    factor: Tensor | None = field(default=None, init=False)
    joint: ClassVar[bool] = True  # type: ignore[misc]
    elementwise: ClassVar[bool] = False

    def adopt(self, covariance: Tensor | None) -> None:
        """Take over a covariance: a matrix, its diagonal, or None for L = 1."""
        made = None if covariance is None else covariance.sqrt()
        if covariance is not None and covariance.dim() == 2:
            made = torch.linalg.cholesky(covariance)
        self.load(made)

    def load(self, factor: Tensor | None) -> None:
        """Take over L."""
        object.__setattr__(self, "factor", factor)

    def _times(self, vectors: Tensor, transposed: bool) -> Tensor:
        """L or Lᵀ times each of some vectors [chains, n]."""
        if self.factor is None:
            return vectors
        factor = self.factor.to(vectors)
        if factor.dim() == 1:
            return vectors * factor
        return vectors @ (factor if transposed else factor.mT)

    # --- layout -------------------------------------------------------------------------

    def batch_key(self, shape: torch.Size) -> None:  # type: ignore[override]
        return None

    def to_batch(self, tensor: Tensor, batch_dims: int = 0) -> Tensor:
        return tensor.reshape(tensor.shape[:batch_dims].numel(), -1)

    def describe(self) -> dict[str, Any]:
        return {"kind": "Whitened"}

    def for_members(self, owns: Sequence[Any], dims: int) -> Whitened:
        return self

    # --- geometry -----------------------------------------------------------------------

    def tangent(self, state: State, vector: Tensor, slack: Tensor | None = None) -> Vector:
        """The covector Lᵀv."""
        return Vector(self._times(vector, transposed=True))

    def impulse(
        self,
        state: State,
        gradient: Tensor | None,
        weight: Scalar,
        scale: Scalar,
        draw: Draw | None,
    ) -> Vector:
        """weight · LᵀG + scale · R: momenta of z are standard normal."""
        found = torch.zeros_like(state.position)
        if gradient is not None:
            found = self._times(gradient, transposed=True) * weight
        return Vector(found if draw is None else add_scaled(found, draw(state.position), scale))

    def velocity(self, state: State) -> Tensor:
        assert state.momentum is not None
        return self._times(state.momentum, transposed=False)

    def euler(
        self, state: State, gradient: Tensor, step: Scalar, scale: Scalar, draw: Draw | None
    ) -> tuple[Tensor, Tensor | None]:
        """q − step · LLᵀG + scale · LR."""
        move = self.impulse(state, gradient, -step, scale, draw).main
        return state.position + self._times(move, transposed=False), None


def covariance_of(samples: Tensor, dense: bool) -> Tensor | None:
    """The covariance of a law from the draws of chains, shrunk by how little they say.

    Variances as in Stan: N/(N + 5) s² + 5/(N + 5) times their median. Correlations are shrunk
    towards 0 by n(n − 1)/N over their sum of squares, which is what independent numbers would
    have (Schäfer and Strimmer 2005), times min(1, n/N): with many draws the noise is small in
    every direction, narrow ones included, which shrinking would widen. N is the effective sample
    size, the median of all numbers.

    Args:
        samples: [chains, draws, n].
        dense: a matrix [n, n]; else the diagonal [n].

    Returns:
        None if nothing has moved.

    Example:
        >>> _ = torch.manual_seed(0)
        >>> found = covariance_of(torch.randn(50, 20, 3) * torch.tensor([1.0, 2.0, 3.0]), True)
        >>> found.diagonal().sqrt().round()
        tensor([1., 2., 3.], dtype=torch.float64)
    """
    draws = samples.double()
    sizes = convergence.ess(draws, ranked=False)
    count = float(sizes.nan_to_num(1.0).median().clamp(1.0, draws.shape[0] * draws.shape[1]))
    flat = draws.flatten(0, 1)
    centred = flat - flat.mean(dim=0)
    own = centred.square().mean(dim=0)
    typical = float(own[own > 0].median()) if bool((own > 0).any()) else 0.0
    if not typical > 0.0 or not bool(own.isfinite().all()):
        return None
    variances = (count * own + PRIOR * typical) / (count + PRIOR)
    if not dense:
        return variances
    scaled = centred / own.clamp_min(torch.finfo(own.dtype).tiny).sqrt()
    correlations = scaled.mT @ scaled / len(flat)
    correlations.fill_diagonal_(0.0)
    size, found = len(own), float(correlations.square().sum())
    noise = min(1.0, size * (size - 1) / (count * found)) if found else 1.0
    correlations *= 1.0 - noise * min(1.0, size / count)
    correlations.fill_diagonal_(1.0)
    roots = variances.sqrt()
    return correlations * roots * roots.unsqueeze(1)


def matrix_pays(samples: Tensor) -> bool:
    """Whether a matrix tells more of a law than its diagonal, given as few draws as there are.

    Both are learned from every second chain (of one chain, from its first half), and asked for the
    likelihood of the others under a Gaussian. A matrix of noise makes a round law narrow.

    Args:
        samples: [chains, draws, n], centred.

    Example:
        >>> _ = torch.manual_seed(0)
        >>> independent = torch.randn(8, 10, 40)
        >>> alike = independent + 2.0 * torch.randn(8, 10, 1)
        >>> matrix_pays(independent), matrix_pays(alike)
        (False, True)
    """
    middle = samples.shape[1] // 2
    halves = samples[::2], samples[1::2]
    if len(samples) == 1:
        halves = samples[:, :middle], samples[:, middle:]
    total = 0.0
    for own, other in (halves, halves[::-1]):
        for dense, sign in ((True, 1.0), (False, -1.0)):
            total += sign * _surprise(covariance_of(own, dense), other.flatten(0, 1).double())
    return total < 0.0


def _surprise(covariance: Tensor | None, points: Tensor) -> float:
    """The mean of −log of a Gaussian density at points [count, n], but for a constant."""
    if covariance is None:
        return 0.0
    if covariance.dim() == 1:
        return float((points.square() / covariance).sum(dim=1).mean() + covariance.log().sum()) / 2
    factor = torch.linalg.cholesky(covariance)
    own = torch.linalg.solve_triangular(factor, points.mT, upper=False)
    return float(own.square().sum(dim=0).mean() / 2 + factor.diagonal().log().sum())
