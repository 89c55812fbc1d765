"""Laws with known answers, for samplers: on spheres and curves, behind walls, and free ones.

The density is exp(−U) with respect to the surface measure of h = 0, inside of the walls g ≤ 0.
The exact averages come from formulas or from quadrature. The circle, the curve, the two lobes
and the sphere with planes are problems of OLLA's paper (arXiv 2510.22044), written down here from
their equations.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import softplus

from colangevin.constraints import Constraint, General, Orthogonal, Sphere

Function = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Law:
    """What is sampled.

    Attributes:
        name: in words.
        potential: U of one point.
        start: makes one point of the surface, from torch's generator.
        averaged: from points [..., n] to the quantities [..., k] that are averaged.
        means: their exact means, [k].
        deviations: their exact standard deviations, [k].
        rule: the library's constraint.
        equations: h, each of one point; all are 0.
        walls: g, each of one point; none is positive.
        step_size: of the library, where its tuner does not know of walls.
        share: of the chains that run elsewhere, where a point is large.
    """

    name: str
    potential: Function
    start: Callable[[], Tensor]
    averaged: Function
    means: Tensor
    deviations: Tensor
    rule: Constraint | None = None
    equations: Sequence[Function] = ()
    walls: Sequence[Function] = ()
    step_size: float | None = None
    share: float = 1.0

    def walled(self, point: Tensor) -> Tensor:
        """U, infinite outside of the walls."""
        value = self.potential(point)
        for wall in self.walls:
            value = torch.where(wall(point) <= 0, value, math.inf)
        return value

    def violation(self, points: Tensor) -> float | None:
        """The largest |h| or positive g over points [count, n]; None without either."""
        found = [torch.func.vmap(h)(points).abs().max() for h in self.equations]
        found += [torch.func.vmap(g)(points).max().clamp_min(0.0) for g in self.walls]
        return max(map(float, found)) if found else None


def _averages(values: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Means and standard deviations of values [count, k] under weights [count]."""
    shares = (weights / weights.sum()).unsqueeze(1)
    means = (values * shares).sum(dim=0)
    return means, ((values - means).square() * shares).sum(dim=0).sqrt()


# --- surfaces ----------------------------------------------------------------------------------

KAPPA, FISHER = 5.0, 10


def von_mises_fisher() -> Law:
    """U = −κx₁ on the sphere in 10 dimensions; its averages have integrals over x₁ alone."""
    x = torch.linspace(-1, 1, 200_001, dtype=torch.float64)
    weights = torch.exp(KAPPA * (x - 1)) * (1 - x.square()) ** ((FISHER - 3) / 2)
    across = (1 - x.square()) / (FISHER - 1)
    mean, deviation = _averages(x.unsqueeze(1), weights)
    other = float((across * weights).sum() / weights.sum()) ** 0.5
    return Law(
        "von Mises–Fisher on the sphere in 10 dimensions, κ = 5",
        lambda q: -KAPPA * q[0],
        lambda: _unit(FISHER),
        lambda q: q[..., :2],
        torch.cat([mean, torch.zeros(1)]),
        torch.cat([deviation, torch.tensor([other])]),
        Sphere(1.0, equality=True),
        [lambda q: q @ q - 1.0],
    )


def _unit(size: int) -> Tensor:
    drawn = torch.randn(size, dtype=torch.float64)
    return drawn / drawn.norm()


def torus_equation(q: Tensor) -> Tensor:
    """The torus of radii 1 and ½."""
    return ((q[0].square() + q[1].square()).sqrt() - 1.0).square() + q[2].square() - 0.25


def torus() -> Law:
    """U = −x + z/2 on the torus, whose area is (1 + cos ψ / 2) dφ dψ."""
    angle = torch.arange(1000, dtype=torch.float64) * (2 * math.pi / 1000)
    phi, psi = torch.meshgrid(angle, angle, indexing="ij")
    points = _torus(phi.flatten(), psi.flatten())
    area = 1.0 + 0.5 * psi.flatten().cos()
    weights = area * torch.exp(points[:, 0] - 0.5 * points[:, 2])

    def start() -> Tensor:
        drawn = 2 * math.pi * torch.rand(2, dtype=torch.float64)
        return _torus(drawn[:1], drawn[1:])[0]

    return Law(
        "U = −x + z/2 on a torus",
        lambda q: -q[0] + 0.5 * q[2],
        start,
        lambda q: q,
        *_averages(points, weights),
        General(torus_equation, max_iterations=10, tolerance=1e-9),
        [torus_equation],
    )


def _torus(phi: Tensor, psi: Tensor) -> Tensor:
    far = 1.0 + 0.5 * psi.cos()
    return torch.stack([far * phi.cos(), far * phi.sin(), 0.5 * psi.sin()], dim=-1)


FRAME = ((1.2, 0.0), (0.0, 0.9), (0.6, -0.3))


def stiefel() -> Law:
    """U = −tr FᵀQ on the 3 × 2 orthonormal frames, which are the rotations' first two columns."""
    frame = torch.tensor(FRAME, dtype=torch.float64)
    frames = _frames(60)
    along = (frames * frame).sum(dim=(1, 2))
    weights = torch.exp(along) * _haar(60)

    def averaged(q: Tensor) -> Tensor:
        shaped = q.unflatten(-1, (3, 2))
        return torch.stack([(shaped * frame).sum(dim=(-2, -1)), shaped[..., 0, 0]], dim=-1)

    def start() -> Tensor:
        return torch.linalg.qr(torch.randn(3, 2, dtype=torch.float64))[0].flatten()

    return Law(
        "matrix Langevin on Stiefel(3, 2)",
        lambda q: -(q.view(3, 2) * frame).sum(),
        start,
        averaged,
        *_averages(averaged(frames.flatten(1)), weights),
        Orthogonal(),
        [
            lambda q: q[0::2] @ q[0::2] - 1.0,
            lambda q: q[1::2] @ q[1::2] - 1.0,
            lambda q: q[0::2] @ q[1::2],
        ],
    )


def _euler(count: int) -> tuple[Tensor, ...]:
    turn = torch.arange(count, dtype=torch.float64) * (2 * math.pi / count)
    nodes = (torch.arange(count, dtype=torch.float64) + 0.5) * (2.0 / count) - 1.0
    return tuple(t.flatten() for t in torch.meshgrid(turn, nodes.acos(), turn, indexing="ij"))


def _haar(count: int) -> Tensor:
    """The nodes are equidistant in the cosine of the second angle: all weigh the same."""
    return torch.ones(count**3, dtype=torch.float64)


def _frames(count: int) -> Tensor:
    a, b, c = _euler(count)
    first = [a.cos() * c.cos() - a.sin() * b.cos() * c.sin(),
             a.sin() * c.cos() + a.cos() * b.cos() * c.sin(), b.sin() * c.sin()]  # fmt: skip
    second = [-a.cos() * c.sin() - a.sin() * b.cos() * c.cos(),
              -a.sin() * c.sin() + a.cos() * b.cos() * c.cos(), b.sin() * c.cos()]  # fmt: skip
    return torch.stack([torch.stack(first, dim=1), torch.stack(second, dim=1)], dim=2)


# --- OLLA's problems ----------------------------------------------------------------------------


def circle() -> Law:
    """A Gaussian on the unit circle, where it is uniform."""
    half = torch.full((2,), math.sqrt(0.5), dtype=torch.float64)
    return Law(
        "OLLA's circle",
        lambda q: q.square().sum() / 2,
        lambda: _unit(2),
        lambda q: q,
        torch.zeros(2, dtype=torch.float64),
        half,
        Sphere(1.0, equality=True),
        [lambda q: q @ q - 1.0],
    )


def quartic_equation(q: Tensor) -> Tensor:
    """x⁴y² + x² + y = 1."""
    return q[0] ** 4 * q[1] ** 2 + q[0] ** 2 + q[1] - 1.0


def quartic_wall(q: Tensor) -> Tensor:
    """x³ − y³ ≤ 1."""
    return q[0] ** 3 - q[1] ** 3 - 1.0


def quartic() -> Law:
    """A Gaussian on x⁴y² + x² + y = 1 with x³ − y³ ≤ 1 (OLLA's ``quadratic_poly``)."""
    points, ends = _quartic_curve()

    def law(q: Tensor) -> Tensor:
        return q.square().sum() / 2

    inside = (torch.func.vmap(quartic_wall)(points) <= 0).double()
    length = (points[1:] - points[:-1]).norm(dim=1)
    middle = (points[1:] + points[:-1]) / 2
    weights = torch.exp(-torch.func.vmap(law)(middle)) * length * inside[1:] * inside[:-1]
    return Law(
        "OLLA's quadratic_poly: a curve and a wall",
        law,
        lambda: ends[int(torch.randint(len(ends), ()))],
        lambda q: q,
        *_averages(middle, weights),
        General(quartic_equation, max_iterations=10, tolerance=1e-9),
        [quartic_equation],
        [quartic_wall],
        step_size=0.3,
    )


def _quartic_curve() -> tuple[Tensor, Tensor]:
    """The curve from its lower left to its lower right end, and some points inside of the wall.

    x² = s solves s²y² + s + y = 1, so that s is a function of y: (−1 + √(1 + 4y²(1 − y)))/(2y²).
    """
    t = torch.linspace(-1, 1, 400_002, dtype=torch.float64)  # the ends of y lie at t = ±1
    y = 1.0 - 2.5 * t.square()
    square = 2 * (1 - y) / (1 + (1 + 4 * y.square() * (1 - y)).sqrt())
    points = torch.stack([square.clamp_min(0.0).sqrt() * t.sign(), y], dim=1)
    few = points[::400]
    return points, few[torch.func.vmap(quartic_wall)(few) <= -0.05]


def lobes_wall(q: Tensor) -> Tensor:
    """−log q ≤ 2 of the double moon."""
    moons = torch.stack([-2 * (q[0] - 3.0) ** 2, -2 * (q[0] + 3.0) ** 2])
    return 2 * ((q @ q).sqrt() - 3.0) ** 2 - torch.logsumexp(moons, dim=0) - 2.0


def two_lobes() -> Law:
    """Uniform on two mirrored islands, which no chain leaves: |x| and y are averaged."""
    x = torch.linspace(-5, 5, 1001, dtype=torch.float64)
    grid = torch.cartesian_prod(x, x)
    inside = grid[torch.func.vmap(lobes_wall)(grid) <= 0]

    def averaged(q: Tensor) -> Tensor:
        return torch.stack([q[..., 0].abs(), q[..., 1]], dim=-1)

    def start() -> Tensor:
        side = 3.0 if bool(torch.rand(()) < 0.5) else -3.0
        return torch.tensor([side, 0.3], dtype=torch.float64)

    return Law(
        "OLLA's two_lobe: uniform behind a wall",
        lambda q: 0.0 * q.sum(),
        start,
        averaged,
        *_averages(averaged(inside), torch.ones(len(inside), dtype=torch.float64)),
        None,
        (),
        [lobes_wall],
        step_size=0.3,
    )


def planes(size: int = 1000, count: int = 10) -> Law:
    """Uniform on a sphere cut by planes Ax = b, with balls to avoid (OLLA's ``highdim_stress``).

    In the flat Ax = b it is a sphere about the point xₚ nearest to 0, of radius √(R² − |xₚ|²). The
    balls lie at about 50 from the centre, so that no wall is ever met.
    """
    generator = torch.Generator().manual_seed(2025)
    a = torch.randn(count - 1, size, dtype=torch.float64, generator=generator)
    b = 0.1 * torch.randn(count - 1, dtype=torch.float64, generator=generator)
    centres = 2.5**0.5 * torch.randn(count, size, dtype=torch.float64, generator=generator)
    nearest = a.T @ torch.linalg.solve(a @ a.T, b)
    squared = 25.0 - float(nearest @ nearest)
    flat = torch.eye(3, size, dtype=torch.float64)
    flat = flat - flat @ a.T @ torch.linalg.solve(a @ a.T, a)

    def equations(q: Tensor) -> Tensor:
        return torch.cat([a @ q - b, (q @ q - 25.0).reshape(1)])

    def start() -> Tensor:
        drawn = torch.randn(size, dtype=torch.float64)
        drawn = drawn - a.T @ torch.linalg.solve(a @ a.T, a @ drawn)
        return nearest + drawn * (squared**0.5 / drawn.norm())

    variances = flat.square().sum(dim=1) * squared / (size - count + 1)
    return Law(
        f"OLLA's highdim_stress: {size} dimensions, {count} equations, {count} walls",
        lambda q: 0.0 * q.sum(),
        start,
        lambda q: q[..., :3],
        nearest[:3],
        variances.sqrt(),
        General(equations),
        [lambda q, i=i: equations(q)[i] for i in range(count)],  # type: ignore[misc]
        [lambda q, c=c: 1.0 - (q - c) @ (q - c) for c in centres],  # type: ignore[misc]
        step_size=0.1,  # a step of 0.3 is longer than the sphere is wide
        share=0.05,
    )


# --- free laws ----------------------------------------------------------------------------------


def gaussian(size: int = 10) -> Law:
    """A Gaussian with the covariance 0.8^|i−j| and the mean i."""
    places = torch.arange(size, dtype=torch.float64)
    covariance = 0.8 ** (places.unsqueeze(0) - places.unsqueeze(1)).abs()
    precision, mean = torch.linalg.inv(covariance), places + 1.0

    def law(q: Tensor) -> Tensor:
        return (q - mean) @ precision @ (q - mean) / 2

    def averaged(q: Tensor) -> Tensor:
        return torch.cat([q, (q[..., :1] - mean[0]).square()], dim=-1)

    means, ones = torch.cat([mean, torch.ones(1)]), torch.ones(size, dtype=torch.float64)
    deviations = torch.cat([ones, torch.tensor([2.0**0.5])])
    start = lambda: mean + 2 * torch.randn(size, dtype=torch.float64)  # noqa: E731
    return Law("a Gaussian in 10 dimensions", law, start, averaged, means, deviations)


def logistic_data() -> tuple[Tensor, Tensor]:
    """Inputs with a constant, [60, 3], and labels."""
    generator = torch.Generator().manual_seed(5)
    inputs = torch.randn(60, 2, dtype=torch.float64, generator=generator)
    inputs = torch.cat([inputs, torch.ones(60, 1, dtype=torch.float64)], dim=1)
    chances = torch.sigmoid(inputs @ torch.tensor([1.5, -1.0, 0.5], dtype=torch.float64))
    return inputs, (torch.rand(60, dtype=torch.float64, generator=generator) < chances).double()


def logistic() -> Law:
    """The posterior of a logistic regression with a standard normal prior, by quadrature."""
    inputs, labels = logistic_data()

    def law(q: Tensor) -> Tensor:
        outputs = inputs @ q
        return (softplus(outputs) - labels * outputs).sum() + q.square().sum() / 2

    x = torch.linspace(-2.5, 4, 53, dtype=torch.float64)
    grid = torch.cartesian_prod(x, x, x)
    outputs = grid @ inputs.T
    energy = (softplus(outputs) - labels * outputs).sum(dim=1) + grid.square().sum(dim=1) / 2
    return Law(
        "posterior of a logistic regression, 60 points, 3 weights",
        law,
        lambda: 0.5 * torch.randn(3, dtype=torch.float64),
        lambda q: q,
        *_averages(grid, torch.exp(energy.min() - energy)),
    )
