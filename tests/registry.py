"""Every case that a law must hold for: constraints with shapes, directions, schemes.

A new constraint takes one line of ``CASES``, and a new direction one of ``DIRECTIONS``: every test
under ``laws/`` then runs on it. Those of ``laws/test_reference.py`` that follow literal formulas
are skipped, unless the line names some.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Size, Tensor

from colangevin import (
    Adam,
    Box,
    Circle,
    Constraint,
    DiagonalGram,
    Direction,
    General,
    Gradient,
    Massive,
    NonNegative,
    Orthogonal,
    Polar,
    Sign,
    Simplex,
    Spectral,
    Sphere,
    State,
    Unconstrained,
)
from colangevin.constraints.base import Draw, Vector
from colangevin.integrators import Dynamics, parse

TOLERANCE = {torch.float32: 1e-6, torch.float64: 1e-12}

MASSES = torch.tensor([[0.5], [1.0], [9.0]], dtype=torch.float64)
LOWER = torch.tensor([[-0.4], [-math.inf], [-1.0]], dtype=torch.float64)
UPPER = torch.tensor([0.6, math.inf, 0.9, 0.5], dtype=torch.float64)
ROW_RADII = torch.tensor([0.8, 1.3], dtype=torch.float64)
RADII = torch.tensor([[0.05], [0.5], [3.0]], dtype=torch.float64)


# What must hold for raw weights, worked out without the library: 0 where it does.


def no_violation(*weights: Tensor) -> Tensor:
    return torch.zeros(())


def beyond(radius: float | Tensor) -> Callable[[Tensor], Tensor]:
    """How far the largest |w_i| is beyond its radius, relative to it."""
    return lambda w: (w.abs() / radius - 1.0).clamp_min(0.0).max()


def outside(low: float | Tensor, high: float | Tensor) -> Callable[[Tensor], Tensor]:
    """How far a weight is beyond the walls."""
    return lambda w: torch.maximum(low - w, w - high).clamp_min(0.0).max()


def as_matrix(w: Tensor) -> Tensor:
    return w.reshape(w.shape[0], -1)


def beyond_spectral(radius: float) -> Callable[[Tensor], Tensor]:
    """How far the largest singular value is beyond a radius."""
    return lambda w: (torch.linalg.svdvals(as_matrix(w))[0] / radius - 1.0).clamp_min(0.0)


def off_spectral(radius: float) -> Callable[[Tensor], Tensor]:
    return lambda w: (torch.linalg.svdvals(as_matrix(w))[0] / radius - 1.0).abs()


def not_diagonal(w: Tensor) -> Tensor:
    """The largest w_i·w_j of the shorter side, over the mean square of both lengths."""
    matrix = as_matrix(w)
    gram = matrix.T @ matrix if matrix.shape[0] >= matrix.shape[1] else matrix @ matrix.T
    squares = gram.diagonal()
    quotients = gram / (squares[:, None] + squares)
    return 2.0 * (quotients - torch.diag(quotients.diagonal())).abs().max()


def off_simplex(dim: int) -> Callable[[Tensor], Tensor]:
    return lambda w: torch.maximum((w.sum(dim=dim) - 1.0).abs().max(), (-w).max())


def norms(w: Tensor, dim: int) -> Tensor:
    """Norm of every slice of w at a fixed index of ``dim``."""
    return w.transpose(0, dim).reshape(w.shape[dim], -1).square().sum(dim=1).sqrt()


def beyond_norm(radius: float | Tensor, dim: int = 0) -> Callable[[Tensor], Tensor]:
    return lambda w: (norms(w, dim) / radius - 1.0).clamp_min(0.0).max()


def off_norm(radius: float | Tensor, dim: int = 0) -> Callable[[Tensor], Tensor]:
    return lambda w: (norms(w, dim) / radius - 1.0).abs().max()


def beyond_whole(radius: float) -> Callable[[Tensor], Tensor]:
    """How far the Frobenius norm is beyond a radius."""
    return lambda w: (w.square().sum().sqrt() / radius - 1.0).clamp_min(0.0)


def off_whole(radius: float) -> Callable[[Tensor], Tensor]:
    return lambda w: (w.square().sum().sqrt() / radius - 1.0).abs()


def not_orthonormal(scale: float = 1.0) -> Callable[[Tensor], Tensor]:
    """Largest entry of the smaller Gram matrix over scale², less the identity."""

    def largest(w: Tensor) -> Tensor:
        matrix = w.reshape(w.shape[0], -1) / scale
        gram = matrix.T @ matrix if matrix.shape[0] >= matrix.shape[1] else matrix @ matrix.T
        return (gram - torch.eye(len(gram), dtype=w.dtype)).abs().max()

    return largest


def each(check: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """The worst over the first dimension."""
    return lambda w: torch.stack([check(copy) for copy in w]).max()


def blocks(count: int, check: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """The worst over blocks that lie one below the other."""
    return lambda w: torch.stack([check(block) for block in w.chunk(count)]).max()


# Equations for ``General``.


def torus(w: Tensor) -> Tensor:
    """Radii 2 and 0.5."""
    return (w[:2].square().sum().sqrt() - 2.0) ** 2 + w[2] ** 2 - 0.25


def ellipse(w: Tensor) -> Tensor:
    """Half-axes 1.5 and 1."""
    return (w[0] / 1.5) ** 2 + w[1] ** 2 - 1.0


def ball_and_slab(w: Tensor) -> Tensor:
    """|w|² ≤ 2 and w_0 ≤ 0.8."""
    return torch.stack([w.square().sum() - 2.0, w[0] - 0.8])


def balanced(u: Tensor, v: Tensor) -> Tensor:
    """Two layers of equal norm, and one of norm √2: |u|² = |v|², |u|² = 2."""
    return torch.stack([u.square().sum() - v.square().sum(), u.square().sum() - 2.0])


def beyond_zero(g: Callable[..., Tensor]) -> Callable[..., Tensor]:
    return lambda *weights: g(*weights).clamp_min(0.0).max()


def off_torus(w: Tensor) -> Tensor:
    """Distance to the surface, relative to how far it reaches."""
    around = w[:2].square().sum().sqrt() - 2.0
    return ((around**2 + w[2] ** 2).sqrt() - 0.5).abs() / 2.5


def off_ellipse(w: Tensor) -> Tensor:
    return (((w[0] / 1.5) ** 2 + w[1] ** 2).sqrt() - 1.0).abs()


def off_balance(u: Tensor, v: Tensor) -> Tensor:
    """Both norms are √2."""
    return torch.stack([u.norm() / math.sqrt(2.0), v.norm() / math.sqrt(2.0)]).sub(1.0).abs().max()


# What a momentum is as a vector in the space of (position, slack).


def as_it_is(state: State, momentum: Vector) -> Vector:
    return momentum


def of_angular_speed(radius: float | Tensor) -> Callable[[State, Vector], Vector]:
    """p = ω(ξ, −θ) on a circle, which keeps the angle: ξ = r cos φ."""

    def ambient(state: State, momentum: Vector) -> Vector:
        assert state.slack is not None
        slack = radius * state.slack.cos()
        return Vector(momentum.main * slack, -momentum.main * state.position)

    return ambient


@dataclass(frozen=True)
class Case:
    """A constraint on parameters of given shapes.

    ``violated`` maps raw weights to how much they break the constraint, worked out in the
    tests. ``share`` is the share of the steps that tests give a case: less for what differs
    from another case in its layout only, and for what solves equations in every step.
    ``ambient`` is for a geometry that keeps its momentum in other coordinates than those of
    (position, slack). ``around`` are mean and standard deviation of the first weights, before they
    are placed: of those with walls, such that they are inside. ``twin`` makes the literal
    ``twins.Twin`` of the case; the kinds of the library have one without it.
    """

    name: str
    make: Callable[[], Constraint]
    shapes: tuple[tuple[int, ...], ...]
    violated: Callable[..., Tensor]
    share: float = field(default=1.0, kw_only=True)
    ambient: Callable[[State, Vector], Vector] = field(default=as_it_is, kw_only=True)
    around: tuple[float, float] = field(default=(0.0, 0.3), kw_only=True)
    twin: Callable[["Case"], Any] | None = field(default=None, kw_only=True)

    def steps(self, count: int) -> int:
        return math.ceil(count * self.share)

    def bound(self) -> Constraint:
        return self.make().bind([Size(shape) for shape in self.shapes])

    def weights(self, dtype: torch.dtype = torch.float64, seed: int = 0) -> list[Tensor]:
        """Weights on the manifold; where that is a set with a boundary, well inside it."""
        generator = torch.Generator().manual_seed(seed)
        constraint = self.bound()
        # A g of the user's may have no gradient at 0.
        mean, spread = (0.6, 0.3) if isinstance(constraint, General) else self.around
        raw = [
            mean + spread * torch.randn(shape, dtype=torch.float64, generator=generator)
            for shape in self.shapes
        ]
        placed = constraint.place(self.join(constraint, raw))
        return [w.to(dtype).contiguous() for w in self.split(constraint, placed)]

    def join(self, constraint: Constraint, weights: list[Tensor]) -> Tensor:
        """Weights, or gradients, as a batch."""
        return torch.cat([constraint.to_batch(w) for w in weights], dim=-1)

    def split(self, constraint: Constraint, batch: Tensor) -> list[Tensor]:
        """Undo ``join``."""
        if len(self.shapes) == 1:
            return [constraint.from_batch(batch, Size(self.shapes[0]))]
        sizes = [math.prod(shape) for shape in self.shapes]
        parts = batch.split(sizes, dim=-1)
        pairs = zip(parts, self.shapes, strict=True)
        return [constraint.from_batch(part, Size(shape)) for part, shape in pairs]

    def state(
        self, dtype: torch.dtype = torch.float64, seed: int = 0, temperature: float = 1.0
    ) -> tuple[Constraint, State]:
        """The bound constraint, and a random state on its cotangent bundle."""
        constraint = self.bound()
        position = self.join(constraint, self.weights(dtype, seed))
        state = State(position, slack=constraint.lift(position))
        return constraint, constraint.sample_momentum(state, temperature, normals(seed + 1))


def normals(seed: int) -> Draw:
    """Draws standard normals, always the same ones for a seed."""
    generator = torch.Generator().manual_seed(seed)
    return lambda like: torch.randn(like.shape, dtype=like.dtype, generator=generator)


LAYOUT, SOLVER = 0.1, 0.03

CASES = [
    Case("unconstrained", Unconstrained, ((3, 4),), no_violation),
    Case("massive", lambda: Massive(4.0), ((3, 4),), no_violation, share=LAYOUT),
    Case("masses", lambda: Massive(MASSES), ((3, 4),), no_violation),
    Case("circle", lambda: Circle(0.5), ((3, 4),), beyond(0.5), ambient=of_angular_speed(0.5)),
    Case(
        "circle_radii",
        lambda: Circle(RADII),
        ((3, 4),),
        beyond(RADII),
        ambient=of_angular_speed(RADII),
    ),
    Case(
        "circle_fan_in",
        lambda: Circle("fan_in", factor=1.5),
        ((3, 2, 2),),
        beyond(0.75),
        share=LAYOUT,
        ambient=of_angular_speed(0.75),
    ),
    Case("box", lambda: Box(-0.4, 0.6), ((3, 4),), outside(-0.4, 0.6), around=(0.1, 0.1)),
    Case(
        "box_walls",
        lambda: Box(LOWER, UPPER),
        ((3, 4),),
        outside(LOWER, UPPER),
        around=(0.1, 0.1),
    ),
    Case(
        "non_negative",
        NonNegative,
        ((3, 4),),
        outside(0.0, math.inf),
        share=LAYOUT,
        around=(1.0, 0.2),
    ),
    Case("simplex", Simplex, ((2, 3),), off_simplex(-1), around=(0.3, 0.05)),
    Case(
        "simplex_inner",
        lambda: Simplex(dim=1),
        ((2, 3, 2),),
        off_simplex(1),
        share=LAYOUT,
        around=(0.3, 0.05),
    ),
    Case(
        "simplex_blocks",
        lambda: Simplex(dim=0, blocks=2),
        ((6, 2),),
        blocks(2, off_simplex(0)),
        share=LAYOUT,
        around=(0.3, 0.05),
    ),
    Case(
        "box_blocks",
        lambda: Box(LOWER[:, None], 0.5, blocks=3),
        ((6, 2),),
        outside(LOWER.repeat_interleave(2, 0), 0.5),
        share=LAYOUT,
        around=(0.1, 0.1),
    ),
    Case("simplex_vector", Simplex, ((4,),), off_simplex(0), share=LAYOUT, around=(0.3, 0.05)),
    Case("sphere", lambda: Sphere(0.8), ((2, 3),), beyond_norm(0.8)),
    Case("sphere_equality", lambda: Sphere(1.3, equality=True), ((2, 3),), off_norm(1.3)),
    Case(
        "sphere_radii", lambda: Sphere(ROW_RADII), ((2, 3),), beyond_norm(ROW_RADII), share=LAYOUT
    ),
    Case(
        "sphere_equality_radii",
        lambda: Sphere(ROW_RADII, equality=True),
        ((2, 3),),
        off_norm(ROW_RADII),
        share=LAYOUT,
    ),
    Case(
        "sphere_inner", lambda: Sphere(0.8, dim=1), ((2, 3, 2),), beyond_norm(0.8, 1), share=LAYOUT
    ),
    Case(
        "sphere_columns", lambda: Sphere(0.8, dim=1), ((3, 4),), beyond_norm(0.8, 1), share=LAYOUT
    ),
    Case("sphere_conv", lambda: Sphere(1.0), ((4, 2, 3, 3),), beyond_norm(1.0), share=LAYOUT),
    Case("sphere_whole", lambda: Sphere(1.3, equality=True, dim=None), ((2, 3),), off_whole(1.3)),
    Case(
        "sphere_whole_ball",
        lambda: Sphere(1.3, dim=None),
        ((2, 2, 2),),
        beyond_whole(1.3),
        share=LAYOUT,
    ),
    Case(
        "sphere_whole_blocks",
        lambda: Sphere(0.8, dim=None, equality=True, blocks=2),
        ((4, 3),),
        blocks(2, off_whole(0.8)),
        share=LAYOUT,
    ),
    Case(
        "sphere_whole_stack",
        lambda: Sphere(0.8, dim=None, batch_dims=1),
        ((3, 2, 2),),
        each(beyond_whole(0.8)),
        share=LAYOUT,
    ),
    Case("orthogonal_tall", Orthogonal, ((6, 3),), not_orthonormal()),
    Case("orthogonal_wide", Orthogonal, ((3, 6),), not_orthonormal(), share=LAYOUT),
    Case("orthogonal_square", Orthogonal, ((4, 4),), not_orthonormal(), share=LAYOUT),
    Case("orthogonal_conv", Orthogonal, ((4, 2, 2, 2),), not_orthonormal(), share=LAYOUT),
    Case(
        "orthogonal_batch",
        lambda: Orthogonal(batch_dims=1),
        ((3, 5, 2),),
        each(not_orthonormal()),
        share=LAYOUT,
    ),
    Case("spectral", lambda: Spectral(1.5), ((3, 4),), beyond_spectral(1.5)),
    Case(
        "spectral_blocks",
        lambda: Spectral(1.5, blocks=2),
        ((4, 3),),
        blocks(2, beyond_spectral(1.5)),
        share=LAYOUT,
    ),
    Case(
        "spectral_equality",
        lambda: Spectral(1.5, equality=True),
        ((4, 3),),
        off_spectral(1.5),
        share=LAYOUT,
    ),
    Case(
        "spectral_batch",
        lambda: Spectral(1.5, equality=True, batch_dims=1),
        ((2, 2, 3),),
        each(off_spectral(1.5)),
        share=LAYOUT,
    ),
    Case("diagonal_gram", DiagonalGram, ((6, 3),), not_diagonal, share=LAYOUT, around=(0.0, 0.5)),
    Case("diagonal_gram_wide", DiagonalGram, ((3, 2, 2),), not_diagonal, share=LAYOUT),
    Case(
        "diagonal_gram_blocks",
        lambda: DiagonalGram(blocks=2),
        ((6, 2),),
        blocks(2, not_diagonal),
        share=LAYOUT,
    ),
    Case(
        "orthogonal_rms",
        lambda: Orthogonal(scale="rms"),
        ((8, 2),),
        not_orthonormal(2.0),
        share=LAYOUT,
    ),
    Case(
        "orthogonal_scaled",
        lambda: Orthogonal(scale=2.5),
        ((5, 3),),
        not_orthonormal(2.5),
        share=LAYOUT,
    ),
    Case(
        "circle_blocks",
        lambda: Circle(RADII[:, None], blocks=3),
        ((6, 2),),
        beyond(RADII.repeat_interleave(2, 0)),
        share=LAYOUT,
        ambient=of_angular_speed(RADII.repeat_interleave(2, 0)),
    ),
    Case(
        "sphere_blocks",
        lambda: Sphere(0.8, dim=1, blocks=2),
        ((4, 3),),
        blocks(2, beyond_norm(0.8, 1)),
        share=LAYOUT,
    ),
    Case(
        "orthogonal_blocks",
        lambda: Orthogonal(blocks=2),
        ((4, 3),),
        blocks(2, not_orthonormal()),
        share=LAYOUT,
    ),
    Case("general_torus", lambda: General(torus), ((3,),), off_torus, share=SOLVER),
    Case(
        "general_inequality",
        lambda: General(ball_and_slab, inequality=True),
        ((4,),),
        beyond_zero(ball_and_slab),
        share=SOLVER,
    ),
    Case("general_joint", lambda: General(balanced), ((2, 2), (3,)), off_balance, share=SOLVER),
    Case(
        "general_rows",
        lambda: General(ellipse, batch_dims=1),
        ((2, 2),),
        each(off_ellipse),
        share=SOLVER,
    ),
]


DIRECTIONS: dict[str, Callable[[], Direction]] = {
    "gradient": Gradient,
    "gradient, relative": lambda: Gradient(relative=True),
    "sign": Sign,
    "adam": lambda: Adam(betas=(0.8, 0.95)),
    "adam, relative": lambda: Adam(relative=True),
    "adam, tangent": lambda: Adam(relative=True, tangent=True),
    "polar": Polar,
    "polar, relative": lambda: Polar(nesterov=False, adjust="match_rms_adamw", relative=True),
}


@dataclass(frozen=True)
class Run:
    """A scheme word with its options, or the overdamped step."""

    name: str
    word: str = "OBA"
    delayed: bool = False
    overdamped: bool = False

    def options(self, step_size: float, friction: float) -> dict[str, object]:
        """Keyword arguments of ``CoLA``."""
        return {
            "step_size": step_size,
            "friction": math.inf if self.overdamped else friction,
            "scheme": self.word,
            "delayed_gradient": self.delayed,
        }

    def dynamics(self, step_size: float, friction: float, temperature: float) -> Dynamics:
        """The same for the integrators, in the units of the optimizer."""
        word = parse(self.word, self.delayed)
        if self.overdamped:
            return Dynamics(step_size, 0.0, temperature, word)
        return Dynamics(step_size**2, math.exp(-friction * step_size), temperature, word)


RUNS = [
    Run("overdamped", overdamped=True),
    Run("OBA", "OBA"),
    Run("ABO", "ABO"),
    Run("BAOAB", "BAOAB"),
    Run("AOAB", "AOAB"),
    Run("AOAB_delayed", "AOAB", delayed=True),
]


def ids(item: object) -> str:
    """Names for ``pytest.mark.parametrize``."""
    return str(getattr(item, "name", item)).removeprefix("torch.")
