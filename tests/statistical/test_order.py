"""The order of the bias in the step size, without Monte Carlo noise.

A step is a map of the state and of standard normals. On a circle its transition kernel is smooth,
so a Galerkin method finds the stationary law almost to rounding: functions of the state are
expanded in exp(ik alpha) (times Hermite polynomials of the momentum), the library's own step is
applied to all nodes of the angle, the momentum and the noise at once, and the stationary moments
m = E psi solve m = C^T m, where C holds the coefficients of E[psi(next state)].
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor

import targets
from chains import OVERDAMPED, Run, Target, estimates, integrate, optimize
from colangevin.constraints import Circle, Constraint, General, NonNegative, State
from colangevin.integrators import Dynamics, advance, parse

pytestmark = pytest.mark.statistical

Gradient = Callable[[Tensor], Tensor]


def gauss_hermite(nodes: int) -> tuple[targets.Array, targets.Array]:
    x, weight = np.polynomial.hermite_e.hermegauss(nodes)
    return x, weight / weight.sum()


def hermite(x: targets.Array, count: int) -> targets.Array:
    """Orthonormal Hermite polynomials along a new last axis."""
    values = [np.ones_like(x), x]
    for n in range(1, count - 1):
        values.append((x * values[n] - math.sqrt(n) * values[n - 1]) / math.sqrt(n + 1))
    return np.stack(values, axis=-1)


def stationary(coefficients: targets.Array, constant: int) -> targets.Array:
    """m with m = C^T m whose entry ``constant``, the mean of 1, is 1."""
    matrix = np.eye(len(coefficients)) - coefficients.T
    others = np.delete(np.arange(len(matrix)), constant)
    moments = np.ones(len(matrix), dtype=complex)
    moments[others] = np.linalg.solve(matrix[np.ix_(others, others)], -matrix[others, constant])
    return moments


def injected(noise: targets.Array) -> Callable[[Tensor], Tensor]:
    """Hands out the columns of ``noise``, as many as a draw takes, and refuses one too many."""
    left = iter(torch.from_numpy(noise).unbind(dim=1))

    def draw(like: Tensor) -> Tensor:
        columns = [next(left) for _ in range(like.numel() // len(noise))]
        return torch.stack(columns, dim=1).reshape(like.shape)

    return draw


class Loop(NamedTuple):
    """A closed curve, or a family of them on a surface, with an angle that moves on its own."""

    constraint: Constraint
    gradient: Gradient
    at: Callable[[Tensor], State]
    wave: Callable[[State], Tensor]
    """exp(it) of a state."""
    normals: int


def grid(*axes: targets.Array) -> targets.Array:
    """All combinations, one per row."""
    return np.stack([a.ravel() for a in np.meshgrid(*axes, indexing="ij")], axis=1)


def overdamped_moments(loop: Loop, step: float, modes: int = 12, nodes: int = 24) -> targets.Array:
    """E exp(ikt), k = 0, 1, ..., at temperature 1."""
    t, (x, weight) = targets.angles(3 * modes), gauss_hermite(nodes)
    points = grid(t, *[x] * loop.normals)
    weights = grid(*[weight] * loop.normals).prod(axis=1)
    start = loop.at(torch.from_numpy(points[:, 0]))
    actions = Dynamics(step, 0.0, 1.0, parse("OBA")).actions(first=False)
    draw = injected(points[:, 1:])
    end = advance(loop.constraint, start, loop.gradient(start.position), actions, draw)
    z = loop.wave(end).numpy().reshape(len(t), -1)
    k = np.arange(-modes, modes + 1)
    means = np.stack([z**n @ weights for n in k], axis=1)
    coefficients = np.exp(-1j * np.outer(k, t)) @ means / len(t)
    return stationary(coefficients, constant=modes)[modes:]


def underdamped_moments(
    word: str,
    gradient: Gradient,
    step: float,
    friction: float = 1.0,
    delayed: bool = False,
    modes: int = 10,
    degree: int = 12,
) -> targets.Array:
    """E exp(ik alpha), k = 0, 1, ..., on the unit circle at temperature 1."""
    t, (speed, speed_weight), (x, weight) = (
        targets.angles(3 * modes),
        gauss_hermite(2 * degree),
        gauss_hermite(24),
    )
    points = grid(t, speed, x)
    angle, omega, _ = torch.from_numpy(points).unbind(dim=1)
    shape = (len(t), len(speed), len(x))
    dynamics = Dynamics(step**2, math.exp(-friction * step), 1.0, parse(word, delayed))
    start = State(angle.cos(), -omega / step, math.pi / 2 - angle)
    actions = dynamics.actions(first=False)
    end = advance(Circle(1.0), start, gradient(start.position), actions, injected(points[:, 2:]))
    assert end.momentum is not None and end.slack is not None
    z = (end.position + 1j * end.slack.cos()).numpy().reshape(shape)
    weighted = hermite(-step * end.momentum.numpy().reshape(shape), degree) * weight[:, None]
    # Means over the noise of exp(ik alpha) He_n(omega), then their expansion at the start.
    k = np.arange(-modes, modes + 1)
    means = np.stack([np.einsum("asr,asrn->asn", z**n, weighted) for n in k], axis=2)
    waves = np.exp(-1j * np.outer(k, t)) / len(t)
    polynomials = hermite(speed, degree) * speed_weight[:, None]
    coefficients = np.einsum("la,sm,askn->lmkn", waves, polynomials, means, optimize=True)
    size = len(k) * degree
    moments = stationary(coefficients.reshape(size, size), constant=modes * degree)
    return moments.reshape(len(k), degree)[modes:, 0]


# --- the circle -----------------------------------------------------------------------------

LINEAR, CURVED = "linear", "curved"
STRENGTH = {LINEAR: 0.0, CURVED: 1.5}
"""U = -theta - strength theta^2 / 2: von Mises, and one whose gradient changes on the way."""


def gradient_of(potential: str) -> Gradient:
    return lambda theta: -1.0 - STRENGTH[potential] * theta


def exact_cosine(potential: str) -> float:
    if potential == LINEAR:
        return targets.von_mises_cosine(1.0)
    return targets.circle_expectation(
        lambda x, y: x, lambda x, y: -x - STRENGTH[potential] * x**2 / 2, 1.0
    )


def cosine(word: str, potential: str, step: float, **options: float | bool) -> float:
    gradient = gradient_of(potential)
    if word == OVERDAMPED:
        loop = Loop(
            Circle(1.0),
            gradient,
            at=lambda t: State(t.cos(), slack=math.pi / 2 - t),
            wave=lambda s: s.position + 1j * s.slack.cos(),
            normals=2,
        )
        moments = overdamped_moments(loop, step, **options)
    else:
        moments = underdamped_moments(word, gradient, step, **options)
    return float(moments[1].real)


SMALL = (0.02, 0.01, 0.005, 0.0025)
MIDDLE = (0.1, 0.05, 0.025, 0.0125)
LARGE = (0.4, 0.2, 0.1, 0.05)


def orders(steps: tuple[float, ...], errors: list[float]) -> tuple[float, float, float]:
    """The fitted order, and the smallest and largest between neighbouring step sizes."""
    pairs = zip(steps, steps[1:], errors, errors[1:], strict=False)
    local = [targets.fitted_order(pair[:2], pair[2:]) for pair in pairs]
    return targets.fitted_order(steps, errors), min(local), max(local)


@pytest.mark.parametrize("potential", [LINEAR, CURVED])
@pytest.mark.parametrize(
    ("word", "steps", "low", "high"),
    [
        (OVERDAMPED, SMALL, 0.7, 1.3),
        ("OBA", MIDDLE, 0.7, 1.3),
        ("ABO", MIDDLE, 0.7, 1.3),
        ("BAOAB", LARGE, 1.7, 2.3),
        ("AOAB", LARGE, 1.7, 2.3),
    ],
)
def test_weak_order_on_the_circle(
    word: str, steps: tuple[float, ...], low: float, high: float, potential: str
) -> None:
    errors = [cosine(word, potential, h) - exact_cosine(potential) for h in steps]
    fitted, least, most = orders(steps, errors)
    assert low <= least <= fitted <= most <= high
    # The computation resolves the smallest bias by far, and the bias is there to be seen.
    assert 1e-5 < abs(errors[-1]) < abs(errors[0]) < 0.1


def test_a_delayed_gradient_costs_an_order() -> None:
    """What the fit must tell apart: BAOAB with every gradient from before the move."""
    errors = [cosine("BAOAB", CURVED, h, delayed=True) - exact_cosine(CURVED) for h in MIDDLE]
    fitted, _, _ = orders(MIDDLE, errors)
    assert 0.7 <= fitted <= 1.3


@pytest.mark.parametrize("word", ["OBA", "BAOAB"])
def test_the_galerkin_method_has_converged(word: str) -> None:
    gradient = gradient_of(CURVED)
    coarse = underdamped_moments(word, gradient, 0.4)[1]
    fine = underdamped_moments(word, gradient, 0.4, modes=14, degree=16)[1]
    assert abs(coarse - fine) < 1e-7


@pytest.mark.parametrize(
    ("word", "step"), [(OVERDAMPED, 0.2), ("OBA", 0.4), ("ABO", 0.4), ("BAOAB", 1.2)]
)
def test_the_optimizer_has_the_bias_that_was_computed(word: str, step: float) -> None:
    """Monte Carlo agrees with the computed stationary law, bias included."""
    strength = STRENGTH[CURVED]
    target = Target(Circle(1.0), torch.tensor(0.5), lambda theta: -theta - strength * theta**2 / 2)
    run = Run(word, step, burn=12.0, samples=4, every=3.6, chains=20000)
    found = estimates(optimize(target, run, seed=9), {"cos": lambda s: s.position})["cos"]
    # At large steps the noise reaches the centre, where the angle jumps: that takes more nodes.
    options = {"nodes": 96} if word == OVERDAMPED else {}
    found.check(cosine(word, CURVED, step, **options), exact_cosine(CURVED))


# --- surfaces through General ---------------------------------------------------------------

A, B = 1.5, 1.0
"""Half axes of the ellipse."""
MAJOR, MINOR = 2.0, 1.0
"""Radii of the torus."""
PULL = 0.7


def pulled(coordinate: int) -> Gradient:
    """The gradient of U = -0.7 q_i."""

    def gradient(q: Tensor) -> Tensor:
        result = torch.zeros_like(q)
        result[:, coordinate] = -PULL
        return result

    return gradient


def ellipse(projection: str) -> Loop:
    axes = torch.tensor([A, B], dtype=torch.float64)
    return Loop(
        General(lambda q: (q / axes).square().sum() - 1.0, projection=projection),
        pulled(0),
        at=lambda t: State(torch.stack([A * t.cos(), B * t.sin()], dim=1)),
        wave=lambda s: s.position[:, 0] / A + 1j * s.position[:, 1] / B,
        normals=2,
    )


def bounded(projection: str) -> Loop:
    """The inequality theta^2 <= a^2 with its slack is an ellipse with b = 1."""
    return Loop(
        General(lambda q: (q / A).square() - 1.0, inequality=True, projection=projection),
        pulled(0),
        at=lambda t: State(A * t.cos()[:, None], slack=t.sin()[:, None]),
        wave=lambda s: (s.position / A + 1j * s.slack).squeeze(1),
        normals=2,
    )


def torus(projection: str) -> Loop:
    """The angle of the small circle; the way round the large one is a symmetry."""

    def g(q: Tensor) -> Tensor:
        return (q[:2].square().sum().sqrt() - MAJOR) ** 2 + q[2] ** 2 - MINOR**2

    def at(t: Tensor) -> State:
        out = MAJOR + MINOR * t.cos()
        return State(torch.stack([0.6 * out, -0.8 * out, MINOR * t.sin()], dim=1))

    return Loop(
        General(g, projection=projection),
        pulled(2),
        at,
        wave=lambda s: (s.position[:, :2].norm(dim=1) - MAJOR + 1j * s.position[:, 2]) / MINOR,
        normals=3,
    )


def exact_and_flat(loop: Callable[[str], Loop], order: int) -> tuple[float, float]:
    """E cos(nt) under the surface measure, and without its factor."""
    t = targets.angles(2000)
    if loop is torus:
        energy, measure = -PULL * MINOR * np.sin(t), MAJOR + MINOR * np.cos(t)
    else:
        energy = -PULL * A * np.cos(t)
        measure = np.hypot(A * np.sin(t), B * np.cos(t))
    values = np.cos(order * t)
    exact = targets.weighted_mean(values, energy, measure)
    return exact, targets.weighted_mean(values, energy, np.ones_like(t))


@pytest.mark.parametrize("projection", ["oblique", "orthogonal"])
@pytest.mark.parametrize(("loop", "order"), [(ellipse, 2), (bounded, 2), (torus, 1)])
def test_both_projections_sample_the_surface_measure_to_first_order(
    loop: Callable[[str], Loop], order: int, projection: str
) -> None:
    """Without Monte Carlo noise the bias can be extrapolated to h = 0."""
    made = loop(projection)
    made = made._replace(
        constraint=made.constraint.bind([made.at(torch.zeros(1)).position[0].shape])
    )
    exact, flat = exact_and_flat(loop, order)
    steps = (0.01, 0.005, 0.0025)
    # Few nodes for the noise, because the far ones leave no way back along the old normals.
    errors = [
        float(overdamped_moments(made, h, modes=16, nodes=7)[order].real) - exact for h in steps
    ]
    fitted, least, most = orders(steps, errors)
    assert 0.7 <= least <= fitted <= most <= 1.3
    extrapolated = 2.0 * errors[2] - errors[1]
    assert abs(extrapolated) < 1e-4 < abs(flat - exact) / 900


# --- at a wall --------------------------------------------------------------------------------


@pytest.mark.parametrize(("word", "step", "order"), [("BAOAB", 0.2, 2), (OVERDAMPED, 0.02, 1)])
def test_the_order_of_the_bias_at_a_wall(word: str, step: float, order: int) -> None:
    """exp(-2w) on w >= 0, where the loss presses against the wall, by Monte Carlo.

    The bias of E w with steps of h and 2h, of which the second is 2^order times the first.
    """
    target = Target(NonNegative(), torch.tensor(0.5), lambda w: 2.0 * w)
    biases = []
    for factor in (1.0, 2.0):
        run = Run(word, factor * step, 12.0, 3, 2.0, chains=40000)
        found = estimates(integrate(target, run, seed=5), {"w": lambda s: s.position})["w"]
        biases.append((found.mean - 0.5, found.mcse))
    (small, error), (large, other) = biases
    assert abs(large) > 8.0 * other
    assert abs(large - 2.0**order * small) <= 4.0 * math.hypot(other, 2.0**order * error)
    assert abs(large - 2.0 ** (3 - order) * small) > 3.0 * math.hypot(other, error)
