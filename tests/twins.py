"""For every kind of constraint of the library, the same system in the words of ``reference``.

Weights are laid out here without the library's help, so that its layout is tested as well.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest
import torch
from torch import Tensor

import reference as ref
from colangevin import (
    Box,
    Circle,
    Constraint,
    DiagonalGram,
    General,
    Massive,
    NonNegative,
    Orthogonal,
    Simplex,
    Spectral,
    Sphere,
    Unconstrained,
)
from registry import Case

Tensors = list[Tensor]


@dataclass(frozen=True)
class Twin:
    """Independent systems, each with reference pieces.

    ``lay`` turns tensors of the parameters' shapes into one tensor a system, ``slack`` gives
    the slacks of such a tensor, and ``unit`` is the length that a system is measured in.
    """

    pieces: list[ref.Pieces]
    lay: Callable[[Tensors], Tensors]
    slack: Callable[[Tensor], Tensor] | None = None
    unit: float = 1.0
    flat: bool = False
    angular: float | Tensor | None = None
    cold: list[ref.Pieces] | None = None
    """The pieces at temperature 0, where they are others."""

    def states(self, weights: Tensors) -> list[ref.State]:
        """At rest."""
        found = []
        for q in self.lay(weights):
            q = q / self.unit
            parts = self.pack(q, None if self.slack is None else self.slack(q))
            found.append(parts + tuple(torch.zeros_like(x) for x in parts))
        return found

    def pack(self, main: Tensor, slack: Tensor | None) -> ref.State:
        """A position, or a noise, with its slack."""
        if slack is None:
            return (main,)
        return (torch.cat([main, slack]),) if self.flat else (main, slack)

    def main(self, index: int, state: ref.State, momentum: bool = False) -> Tensor:
        """The weights of a system, or their momenta, without slack and in full length."""
        half = ref.momenta(state) if momentum else ref.positions(state)
        return self.pieces[index].position(half + half) * self.unit

    def slacks(self, index: int, state: ref.State) -> Tensor:
        """The slack of a system, flat."""
        half = ref.positions(state)
        if self.flat:
            return half[0][len(self.pieces[index].position(state)) :]
        return half[1].reshape(-1)


def rows(dim: int) -> Callable[[Tensors], Tensors]:
    return lambda ws: [ws[0].movedim(dim, 0).reshape(ws[0].shape[dim], -1)]


def matrices(batch_dims: int) -> Callable[[Tensors], Tensors]:
    def lay(ws: Tensors) -> Tensors:
        copies = list(ws[0]) if batch_dims else [ws[0]]
        return [ref.to_tall(w.reshape(w.shape[0], -1)) for w in copies]

    return lay


def flat(batch_dims: int) -> Callable[[Tensors], Tensors]:
    def lay(ws: Tensors) -> Tensors:
        return list(ws[0]) if batch_dims else [torch.cat([w.reshape(-1) for w in ws])]

    return lay


def twin_of(case: Case) -> Twin:
    """The twin of a case: the one that its line names, or that of its kind.

    A subclass may be another geometry, so it does not have the twin of what it is made from. A test
    of a case without a twin is skipped.
    """
    make = case.twin or TWINS.get(type(case.make()))
    if make is None:
        pytest.skip(
            f"{type(case.make()).__name__} has no literal formulas to compare with: write them in "
            f"tests/reference.py and name them in its line of CASES, as twin="
        )
    found: Twin = make(case)
    return found


def massive_twin(case: Case) -> Twin:
    constraint = case.make()
    assert isinstance(constraint, Massive)
    mass = torch.as_tensor(constraint.mass, dtype=torch.float64)
    return Twin([ref.massive_pieces(mass)], lambda ws: list(ws))


def unconstrained_twin(case: Case) -> Twin:
    return Twin([ref.unconstrained_pieces()], lambda ws: list(ws))


def box_twin(case: Case) -> Twin:
    constraint = case.bound()
    assert isinstance(constraint, Box)
    low = -math.inf if constraint.low is None else constraint.low
    high = math.inf if constraint.high is None else constraint.high
    walls = [torch.as_tensor(x, dtype=torch.float64).expand(case.shapes[0]) for x in (low, high)]
    warm, cold = ref.box_pieces(*walls, cold=False), ref.box_pieces(*walls, cold=True)
    return Twin([warm], lambda ws: list(ws), cold=[cold])


def spectral_twin(case: Case) -> Twin:
    constraint = case.make()
    assert isinstance(constraint, Spectral)
    if constraint.blocks > 1:
        return by_blocks(case, constraint.blocks)
    copies = case.shapes[0][0] if constraint.batch_dims else 1
    own = constraint.radius, constraint.equality
    warm, cold = ref.spectral_pieces(*own, cold=False), ref.spectral_pieces(*own, cold=True)
    return Twin([warm] * copies, matrices(constraint.batch_dims), cold=[cold] * copies)


def diagonal_gram_twin(case: Case) -> Twin:
    constraint = case.make()
    assert isinstance(constraint, DiagonalGram)
    if constraint.blocks > 1:
        return by_blocks(case, constraint.blocks)
    lay = matrices(constraint.batch_dims)
    (example,) = lay([torch.zeros(case.shapes[0])])
    return Twin([ref.matrix_pieces(ref.off_diagonals, example.shape)], lay)


def simplex_twin(case: Case) -> Twin:
    constraint = case.make()
    assert isinstance(constraint, Simplex)
    if constraint.blocks > 1:
        return by_blocks(case, constraint.blocks)

    def lay(ws: Tensors) -> Tensors:
        rows = ws[0].movedim(constraint.dim, -1)
        return list(rows.reshape(-1, rows.shape[-1]))

    count = math.prod(case.shapes[0]) // case.shapes[0][constraint.dim]
    warm, cold = ref.simplex_pieces(cold=False), ref.simplex_pieces(cold=True)
    return Twin([warm] * count, lay, cold=[cold] * count)


def circle_twin(case: Case) -> Twin:
    bound = case.bound()
    assert isinstance(bound, Circle) and not isinstance(bound.radius, str)
    r = bound.radius
    return Twin(
        [ref.circle_pieces(r)], lambda ws: list(ws), lambda w: ref.circle_slack(w, r), angular=r
    )


def sphere_twin(case: Case) -> Twin:
    constraint = case.make()
    assert isinstance(constraint, Sphere)
    if constraint.blocks > 1:
        return by_blocks(case, constraint.blocks)
    r = constraint.radius
    slack = None if constraint.equality else lambda w: ref.sphere_slack(w, r)
    pieces = [ref.sphere_pieces(r, constraint.equality)]
    if constraint.dim is not None:
        return Twin(pieces, rows(constraint.dim), slack)
    # A whole weight is one long row; those of a stack are a row each.
    stack = bool(constraint.batch_dims)
    return Twin(pieces, lambda ws: [ws[0].reshape(len(ws[0]) if stack else 1, -1)], slack)


def orthogonal_twin(case: Case) -> Twin:
    constraint = case.bound()
    assert isinstance(constraint, Orthogonal)
    if constraint.blocks > 1:
        return by_blocks(case, constraint.blocks)
    copies = case.shapes[0][0] if constraint.batch_dims else 1
    pieces = [ref.orthogonal_pieces(iterations=10)] * copies
    return Twin(pieces, matrices(constraint.batch_dims), unit=constraint.scale)


def by_blocks(case: Case, count: int) -> Twin:
    """The twin of one block, as often as there are blocks."""
    rows, *others = case.shapes[0]
    shape = (rows // count, *others)
    one = twin_of(replace(case, make=lambda: replace(case.make(), blocks=1), shapes=(shape,)))

    def lay(ws: Tensors) -> Tensors:
        return [part for i in range(count) for part in one.lay([ws[0][i * shape[0] :][: shape[0]]])]

    cold = None if one.cold is None else one.cold * count
    return replace(one, pieces=one.pieces * count, cold=cold, lay=lay)


def general_twin(case: Case) -> Twin:
    constraint = case.make()
    assert isinstance(constraint, General)
    if constraint.blocks > 1:
        return by_blocks(case, constraint.blocks)
    shapes = case.shapes if not constraint.batch_dims else (case.shapes[0][1:],)
    sizes = [torch.Size(shape).numel() for shape in shapes]

    def g(q: Tensor) -> Tensor:
        parts = [x.reshape(s) for x, s in zip(q.split(sizes), shapes, strict=True)]
        return constraint.g(*parts).reshape(-1)

    copies = case.shapes[0][0] if constraint.batch_dims else 1
    lay = flat(constraint.batch_dims)
    if not constraint.inequality:
        pieces = ref.general_pieces(g, projection=constraint.projection)
        return Twin([pieces] * copies, lay, flat=True)
    count = len(g(torch.zeros(sum(sizes), dtype=torch.float64)))
    lifted = ref.general_pieces(ref.with_slack(g, count), count, constraint.projection)
    return Twin([lifted] * copies, lay, lambda q: torch.sqrt(-g(q)), flat=True)


TWINS: dict[type[Constraint], Callable[[Case], Twin]] = {
    Box: box_twin,
    Simplex: simplex_twin,
    Spectral: spectral_twin,
    DiagonalGram: diagonal_gram_twin,
    NonNegative: box_twin,
    Massive: massive_twin,
    Unconstrained: unconstrained_twin,
    Circle: circle_twin,
    Sphere: sphere_twin,
    Orthogonal: orthogonal_twin,
    General: general_twin,
}
