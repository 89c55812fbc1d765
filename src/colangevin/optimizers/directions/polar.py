"""The polar direction: the orthogonal factor of the momentum, as in Muon.

On orthogonal weights it is the steepest direction of spectral norm 1 in the tangent space, which
others call manifold Muon.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from colangevin import checks
from colangevin.constraints import Constraint, Orthogonal
from colangevin.optimizers.directions.base import FLAGS, Direction, check_flags, update_alone

BUFFER = "buffer"
COEFFICIENTS = (3.4445, -4.775, 2.0315)
"""Of the quintic polynomial, as torch's: singular values end between 0.7 and 1.2."""
FLOOR = 1e-7
LONG = 2
"""From this ratio of the sides on, all but two of the products are of the smaller side alone."""
CACHED = 1 << 18
"""Numbers of the matrices that a processor works on together."""
ROUNDS = 10
"""Of the fixed point for orthogonal weights. All are tangent; after ten, singular values are
within 8 % of 1 for a weight of 128 × 64, and within 0.01 % for one of 3072 × 128."""
SMALL = 1e-2
"""Of the mean singular value of a tangent slope: those below it are not brought up to 1. They are
squared on the way, so in float32 smaller ones would be rounding that is blown up to full size."""
ADJUST = ("original", "match_rms_adamw")


@dataclass(frozen=True)
class Polar(Direction):
    """B ← μB + (1 − μ)G, u = the polar factor of (1 − μ)G + μB, by Newton–Schulz.

    On free weights this is ``torch.optim.Muon`` with products in the weight's own precision, at
    least float32; its weight decay is ``decoupled_weight_decay`` here. A weight with more than two
    dimensions is a matrix [first, all others]. On weights with ``Orthogonal`` it is the tangent
    vector A of spectral norm 1 with the largest ⟨G, A⟩, times the weight's scale.

    Args:
        momentum: μ.
        nesterov: False for the polar factor of B itself.
        steps: of Newton–Schulz.
        adjust: the factor of an update, "original", √max(1, rows/columns), or
            "match_rms_adamw", 0.2 √max(rows, columns).
        blocks: how many matrices lie one below the other in a weight; by default those of its
            constraint.
        batch_dims: how many dimensions in front count matrices, such as experts.
        relative: an update is as long as lr times the radius, or times a free weight's norm.
        tangent: an update is projected onto the tangent space of the constraint first.

    Example:
        >>> weight, memory = torch.zeros(2, 2), {"buffer": torch.zeros(2, 2)}
        >>> direction = Polar(steps=12)
        >>> raw = direction.update(torch.diag(torch.tensor([5.0, 1.0])), weight, memory, 1)
        >>> from colangevin import Unconstrained
        >>> (made,) = direction.finish([raw], Unconstrained(), [weight], 0)
        >>> bool((made.diagonal() > 0.6).all() and (made.diagonal() < 1.3).all())
        True
    """

    momentum: float = 0.95
    nesterov: bool = True
    steps: int = 5
    adjust: str = "original"
    blocks: int | None = None
    batch_dims: int = 0
    relative: bool = False
    tangent: bool = False
    keeps: ClassVar[tuple[str, ...]] = (BUFFER,)
    whole: ClassVar[bool] = True
    trusted: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not 0.0 <= checks.number("momentum", self.momentum) < 1.0:
            raise ValueError(f"momentum must be at least 0 and below 1, got {self.momentum!r}")
        check_flags(self, *FLAGS, "nesterov")
        checks.count("steps", self.steps)
        checks.choice("adjust", self.adjust, ADJUST)
        checks.count("batch_dims", self.batch_dims, least=0)
        if self.blocks is not None:
            checks.count("blocks", self.blocks)

    def check(self, name: str, shape: torch.Size, constraint: Constraint) -> None:
        super().check(name, shape, constraint)
        own = shape[self.batch_dims :]
        if len(own) < 2:
            raise ValueError(
                f"direction 'polar' needs matrices, got {name} of shape {tuple(shape)} with "
                f"batch_dims={self.batch_dims}: give vectors another direction, such as 'adam'"
            )
        if own[0] % self._blocks(constraint):
            raise ValueError(
                f"blocks={self._blocks(constraint)} of direction 'polar' must divide the rows of "
                f"{name}, got shape {tuple(shape)}"
            )

    def _blocks(self, constraint: Constraint) -> int:
        return constraint.blocks if self.blocks is None else self.blocks

    update = update_alone

    def updates(
        self,
        gradients: Sequence[Tensor],
        weights: Sequence[Tensor],
        memories: Sequence[dict[str, Tensor]],
        steps: Sequence[int],
    ) -> list[Tensor]:
        slopes, buffers = list(gradients), [own[BUFFER] for own in memories]
        torch._foreach_lerp_(buffers, slopes, 1.0 - self.momentum)
        if self.nesterov:
            return list(torch._foreach_lerp(slopes, buffers, self.momentum))
        return [buffer.clone() for buffer in buffers]

    def finish(
        self,
        updates: Sequence[Tensor],
        constraint: Constraint,
        weights: Sequence[Tensor],
        lead: int,
    ) -> list[Tensor]:
        alike: dict[torch.Size, list[int]] = {}
        for index, update in enumerate(updates):
            alike.setdefault(update.shape, []).append(index)
        found = list(updates)
        for shape, indices in alike.items():
            slopes = torch.stack([updates[i] for i in indices])
            if isinstance(constraint, Orthogonal):
                places = torch.stack([weights[i] for i in indices])
                made = self._tangent(slopes, places, constraint, lead)
            else:
                made = self._free(slopes, self._blocks(constraint), lead)
            for index, own in zip(indices, made.unbind(), strict=True):
                found[index] = own.reshape(shape)
        return found

    def _free(self, stacked: Tensor, blocks: int, lead: int) -> Tensor:
        """The polar factors of a stack of weights of one shape."""
        cut = 1 + lead + self.batch_dims
        matrices = stacked.flatten(0, cut - 1).unflatten(1, (blocks, -1)).flatten(0, 1).flatten(2)
        rows, columns = matrices.shape[1:]
        factor = math.sqrt(max(1.0, rows / columns))
        if self.adjust == "match_rms_adamw":
            factor = 0.2 * math.sqrt(max(rows, columns))
        return newton_schulz(matrices, self.steps).mul_(factor).view(stacked.shape)

    @staticmethod
    def _tangent(stacked: Tensor, places: Tensor, constraint: Orthogonal, lead: int) -> Tensor:
        """The tangent directions of a stack of orthogonal weights of one shape."""
        shape, count = stacked.shape[1 + lead :], stacked.shape[: 1 + lead].numel()
        flat = [constraint.to_batch(own.flatten(0, lead), 1) for own in (places, stacked)]
        weights, slopes = (own.flatten(0, -3) for own in flat)
        made = tangent_polar(weights / constraint.scale, slopes).mul_(constraint.scale)
        copies = made.view(count, -1, *made.shape[1:])
        found: Tensor = torch.func.vmap(lambda one: constraint.from_batch(one, shape))(copies)
        return found.reshape(stacked.shape)


def newton_schulz(matrices: Tensor, steps: int) -> Tensor:
    """Polar factors of matrices [copies, rows, columns], roughly.

    Example:
        >>> newton_schulz(torch.eye(2)[None] * 3, 30).diagonal(dim1=1, dim2=2).round(decimals=0)
        tensor([[1., 1.]])
    """
    small, large = sorted(matrices.shape[-2:])
    factors = _on_gram if large >= LONG * small else _on_matrices
    # What a few matrices need stays in the cache of a processor; a GPU works on all at once.
    count = max(1, CACHED // max(1, small * large)) if matrices.is_cpu else max(1, len(matrices))
    return torch.cat([factors(some, steps) for some in matrices.split(count)])


def _on_matrices(matrices: Tensor, steps: int) -> Tensor:
    """X ← (a + bXXᵀ + c(XXᵀ)²)X for X of norm 1, with rows as the smaller side."""
    first, second, third = COEFFICIENTS
    tall = matrices.shape[-2] > matrices.shape[-1]
    found = matrices.mT if tall else matrices
    found = found / found.flatten(1).norm(dim=1).clamp_min(FLOOR)[:, None, None]
    for _ in range(steps):
        gram = found @ found.mT
        inner = torch.baddbmm(gram, gram, gram, beta=second, alpha=third)
        found = torch.baddbmm(found, inner, found, beta=first)
    return (found.mT if tall else found).contiguous()


def _on_gram(matrices: Tensor, steps: int) -> Tensor:
    """The same iterates as P X: with G = XXᵀ and p = a + bG + cG², P ← pP and G ← p²G.

    All of these are small and commute. Of singular values σ of X that are near 0 the factor is
    right to about 10⁴ times rounding, because G has σ² beside 1.
    """
    first, second, third = COEFFICIENTS
    tall = matrices.shape[-2] > matrices.shape[-1]
    size = matrices.flatten(1).norm(dim=1).clamp_min(FLOOR)[:, None, None]
    gram = (matrices.mT @ matrices if tall else matrices @ matrices.mT) / size.square()
    made = None
    for step in range(steps):
        factor = torch.baddbmm(gram, gram, gram, beta=second, alpha=third)
        factor.diagonal(dim1=1, dim2=2).add_(first)
        made = factor if made is None else factor @ made
        if step + 1 < steps:
            gram = factor @ (factor @ gram)
    assert made is not None
    made = made / size
    return matrices @ made if tall else made @ matrices


def tangent_polar(weights: Tensor, slopes: Tensor, rounds: int = ROUNDS) -> Tensor:
    """The tangent vectors A of spectral norm 1 with the largest ⟨G, A⟩, for WᵀW = 1.

    A is the polar factor of G + 2WΛ with the symmetric Λ that makes WᵀA skew. With WᵀG's skew part
    Ω, C = G − WWᵀG and P² = CᵀC + (BP)ᵀBP + δ², it is A = WB + CP⁻¹, where BP + PB = 2Ω. The rounds
    are those of a fixed point of P, each with the eigenvectors of one small matrix. B is skew in
    all of them, so A is tangent to rounding, however many there are. δ keeps P from being singular.

    Args:
        weights: W, [copies, rows, columns] with at least as many rows as columns.
        slopes: G.
        rounds: of the fixed point.

    Example:
        >>> weight = torch.eye(3, 2)[None]
        >>> found = tangent_polar(weight, torch.arange(6.0).view(1, 3, 2))
        >>> bool((weight.mT @ found + found.mT @ weight).abs().max() < 1e-6)
        True
    """
    size = slopes.flatten(1).norm(dim=1).clamp_min(torch.finfo(slopes.dtype).tiny)[:, None, None]
    slopes = slopes / size
    product = weights.mT @ slopes
    skew = (product - product.mT) / 2
    rest = slopes - weights @ product
    gram = rest.mT @ rest
    square = gram + skew.mT @ skew  # |G_t|², of which δ² is a small part
    mean = square.diagonal(dim1=-2, dim2=-1).mean(dim=-1)[:, None, None]
    least = (SMALL * SMALL * mean).clamp_min(torch.finfo(slopes.dtype).tiny)
    gram = gram + least * torch.eye(gram.shape[-1], dtype=gram.dtype, device=gram.device)
    square = gram + skew.mT @ skew
    for _ in range(rounds):
        values, vectors = torch.linalg.eigh(square)
        lengths = values.clamp_min(least[:, 0]).sqrt()
        turned = vectors.mT @ skew @ vectors
        within = 2.0 * turned / (lengths[..., :, None] + lengths[..., None, :])
        moved = within * lengths[..., None, :]
        square = gram + vectors @ (moved.mT @ moved) @ vectors.mT
        square = (square + square.mT) / 2
    inverse = (vectors / lengths[..., None, :]) @ vectors.mT
    turn = vectors @ within @ vectors.mT
    found = weights @ ((turn - turn.mT) / 2) + rest @ inverse
    # P⁻¹ enlarges what rounding has left of W in C.
    product = weights.mT @ found
    return found - weights @ ((product + product.mT) / 2)
