"""The order of the bias in the step size, without Monte Carlo noise.

A step is a map of the state and of standard normals. On a circle its transition kernel is smooth,
so a Galerkin method finds the stationary law almost to rounding: functions of the state are
expanded in exp(ik alpha) (times Hermite polynomials of the momentum), the library's own step is
applied to all nodes of the angle, the momentum and the noise at once, and the stationary moments
m = E psi solve m = C^T m, where C holds the coefficients of E[psi(next state)].
"""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

import targets
from chains import OVERDAMPED, Run, Target, estimates, optimize
from colangevin.constraints import Circle, Constraint, General, State
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


def injected(*noise: Tensor) -> Callable[[Tensor], Tensor]:
    """Hands out the given normals one after the other, and refuses a draw too many."""
    left = iter(noise)
    return lambda like: next(left).reshape(like.shape)


def overdamped_moments(
    constraint: Constraint,
    gradient: Gradient,
    axes: tuple[float, float],
    step: float,
    modes: int = 12,
    nodes: int = 24,
) -> targets.Array:
    """E exp(ik t), k = 0, 1, ..., on (a cos t, b sin t); Circle keeps the second as slack."""
    t, (x, weight) = targets.angles(3 * modes), gauss_hermite(nodes)
    angle, along, across = (torch.from_numpy(v) for v in np.meshgrid(t, x, x, indexing="ij"))
    first, second = axes[0] * angle.cos(), axes[1] * angle.sin()
    actions = Dynamics(step, 0.0, 1.0, parse("OBA")).actions(first=False)
    if isinstance(constraint, Circle):
        start, draw = State(first, slack=second), injected(along, across)
    else:
        start = State(torch.stack([first, second], dim=-1).reshape(-1, 2))
        draw = injected(torch.stack([along, across], dim=-1))
    end = advance(constraint, start, gradient(start.position), actions, draw)
    if isinstance(constraint, Circle):
        first, second = end.position, end.slack
    else:
        first, second = end.position.reshape(*angle.shape, 2).unbind(dim=-1)
    z = (first / axes[0] + 1j * second / axes[1]).numpy()
    k = np.arange(-modes, modes + 1)
    means = np.stack([(z**n * weight * weight[:, None]).sum(axis=(1, 2)) for n in k], axis=1)
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
    angle, omega, noise = (torch.from_numpy(v) for v in np.meshgrid(t, speed, x, indexing="ij"))
    dynamics = Dynamics(step**2, math.exp(-friction * step), 1.0, parse(word, delayed))
    start = State(angle.cos(), -omega / step, angle.sin())
    actions = dynamics.actions(first=False)
    end = advance(Circle(1.0), start, gradient(start.position), actions, injected(noise))
    assert end.momentum is not None and end.slack is not None
    z = (end.position + 1j * end.slack).numpy()
    weighted = hermite(-step * end.momentum.numpy(), degree) * weight[:, None]
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
        moments = overdamped_moments(Circle(1.0), gradient, (1.0, 1.0), step, **options)
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


# --- an ellipse through General -------------------------------------------------------------


@pytest.mark.parametrize("projection", ["oblique", "orthogonal"])
def test_overdamped_order_and_surface_measure_on_an_ellipse(projection: str) -> None:
    """Both projections sample arc length, to order 1: far sharper than any sampling."""
    axes = (1.5, 1.0)
    scale = torch.tensor(axes, dtype=torch.float64)
    pull = torch.tensor([0.7, 0.0], dtype=torch.float64)
    constraint = General(lambda q: (q / scale).square().sum() - 1.0, projection=projection)
    bound = constraint.bind([torch.Size([2])])
    exact = targets.ellipse_expectation(
        lambda x, y: x**2 / axes[0] ** 2, lambda x, y: -0.7 * x, 1.0, *axes
    )
    t = targets.angles(2000)
    flat = targets.weighted_mean(np.cos(t) ** 2, -0.7 * axes[0] * np.cos(t), np.ones_like(t))

    def mean(step: float) -> float:
        """E cos^2 t; few nodes, because the far ones leave no way back along the old normals."""
        moments = overdamped_moments(bound, lambda q: -pull.expand_as(q), axes, step, 20, 7)
        return float(1.0 + moments[2].real) / 2.0

    steps = (0.01, 0.005, 0.0025)
    errors = [mean(step) - exact for step in steps]
    fitted, least, most = orders(steps, errors)
    assert 0.7 <= least <= fitted <= most <= 1.3
    extrapolated = 2.0 * errors[2] - errors[1]
    assert abs(extrapolated) < 1e-4
    assert abs(flat - exact) > 100.0 * abs(extrapolated)
