"""Known measures through ``cl.sample``: every average within 4 Monte Carlo standard errors.

Several hundred chains run as one computation; each is one batch of the standard error. Tests also
name values that a wrong sampler would give, at least 8 standard errors away. The unadjusted steps
are chosen so that their bias is below the standard error.
"""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

import colangevin as cl
import targets
from posteriors import Point, estimate, line, line_loss, linear, point

pytestmark = [
    pytest.mark.statistical,
    pytest.mark.filterwarnings("ignore::colangevin.errors.SamplingWarning"),
]

EXACT = [False, True]


def run(model, potential, rules=None, **options) -> cl.Trace:
    settings = {"chains": 250, "warmup": 80, "draws": 15, "thin": 5, "step_size": 0.2, "seed": 3}
    return cl.sample(model, potential, rules=rules, **{**settings, **options})


@pytest.mark.parametrize("adjust", EXACT)
def test_a_gaussian_with_full_covariance(adjust: bool) -> None:
    """BAOAB has the exact covariance of a Gaussian at any stable step, and so has the test."""
    precision = torch.tensor([[2.0, 1.2, 0.3], [1.2, 3.0, -0.5], [0.3, -0.5, 1.0]]).double()
    mean = torch.tensor([1.0, -2.0, 0.5]).double()
    exact = torch.linalg.inv(precision)

    def potential(own: dict[str, Tensor]) -> Tensor:
        gap = own["q"] - mean
        return gap @ precision @ gap / 2

    trace = run(point(0.0, 0.0, 0.0), potential, step_size=0.5, adjust=adjust)
    gaps = trace["q"] - mean
    for i in range(3):
        estimate(gaps[..., i]).check(0.0)
        for j in range(i + 1):
            half, value = float(exact[i, j]) / 2, float(exact[i, j])
            found = estimate(gaps[..., i] * gaps[..., j])
            found.check(value, *([half] if i == j else []))


def test_the_posterior_of_a_linear_regression() -> None:
    """τ = 1/N by default; the prior of the weights, not of the data, has variance 1."""
    inputs, answers = line()
    design = torch.cat([inputs, torch.ones(len(inputs), 1, dtype=torch.float64)], dim=1)
    exact = torch.linalg.inv(design.T @ design / 0.25 + torch.eye(3, dtype=torch.float64))
    centre = exact @ design.T @ answers[:, 0] / 0.25
    trace = run(
        linear,
        line_loss,
        data=(inputs, answers),
        prior=1.0,
        step_size=None,
        warmup=160,
        draws=20,
    )
    assert trace.temperatures[0] == pytest.approx(1 / 30)
    found = torch.cat([trace["weight"][:, :, 0], trace["bias"]], dim=2)
    for i in range(3):
        estimate(found[..., i]).check(float(centre[i]), float(centre[i]) + 0.1)
        estimate((found[..., i] - centre[i]).square()).check(
            float(exact[i, i]), 2 * float(exact[i, i])
        )


KAPPA = 5.0
VON_MISES_FISHER = targets.von_mises_fisher_resultant(KAPPA, 10)


def fisher(**options) -> cl.Trace:
    start = torch.zeros(10, dtype=torch.float64)
    start[1] = 1.0
    rules = {"q": cl.Sphere(1.0, equality=True)}
    return run(Point(start), lambda own: -KAPPA * own["q"][0], rules, **options)


def test_von_mises_fisher_on_a_sphere_in_10_dimensions() -> None:
    trace = fisher(step_size=None, warmup=160, tolerance=0.01, draws=20)
    assert trace.tuning.chosen_by == "tuner"
    estimate(trace["q"][..., 0]).check(VON_MISES_FISHER, 0.386)


def test_the_metropolis_test_removes_the_bias_of_a_large_step() -> None:
    """At h = 0.4 BAOAB's mean is 0.386 for 0.4225."""
    options = {"step_size": 0.4, "draws": 40}
    biased = estimate(fisher(**options)["q"][..., 0])
    assert biased.distance(VON_MISES_FISHER) > 8 and biased.mean == pytest.approx(0.386, abs=0.006)
    trace = fisher(adjust=True, **options)
    estimate(trace["q"][..., 0]).check(VON_MISES_FISHER, 0.386)
    assert trace.acceptance is not None and 0.75 < float(trace.acceptance.mean()) < 0.95


FRAME = np.array([[1.2, 0.0], [0.0, 0.9], [0.6, -0.3]])


@pytest.mark.parametrize("adjust", EXACT)
def test_matrix_langevin_on_a_stiefel_manifold(adjust: bool) -> None:
    """With the test at a step at which one in five projections cannot be reversed."""
    weight = torch.tensor(FRAME)
    exact = targets.matrix_langevin_32(lambda q: (FRAME * q).sum(axis=(-2, -1)), FRAME)
    trace = run(
        Point(torch.eye(3, 2, dtype=torch.float64)),
        lambda own: -(own["q"] * weight).sum(),
        {"q": cl.Orthogonal()},
        step_size=0.4 if adjust else 0.2,
        adjust=adjust,
    )
    along = (trace["q"] * weight).sum(dim=(2, 3))
    estimate(along).check(
        exact, targets.matrix_langevin_32(lambda q: (FRAME * q).sum(axis=(-2, -1)), 0.5 * FRAME)
    )


def torus(q: Tensor) -> Tensor:
    distance = (q[0].square() + q[1].square()).sqrt() - 1.0
    return distance.square() + q[2].square() - 0.25


@pytest.mark.parametrize("adjust", EXACT)
def test_a_torus_through_a_general_constraint(adjust: bool) -> None:
    def mean(temperature: float) -> float:
        return targets.torus_expectation(
            lambda x, y, z: x, lambda x, y, z: -x + 0.5 * z, temperature, 1.0, 0.5
        )

    trace = run(
        point(0.0, 1.5, 0.0),
        lambda own: -own["q"][0] + 0.5 * own["q"][2],
        {"q": cl.General(torus, max_iterations=10, tolerance=1e-9)},
        chains=130,
        step_size=0.25 if adjust else 0.2,
        adjust=adjust,
        warmup=60,
        draws=10,
    )
    estimate(trace["q"][..., 0]).check(mean(1.0), mean(4.0))
    estimate(trace["q"][..., 1]).check(0.0)


def test_a_truncated_gaussian_through_an_inequality() -> None:
    """With respect to the surface of (x, ξ), x = ½ + ξ² ≥ ½, as every inequality here (4.8)."""
    x = np.linspace(0.5, 9, 400_001)[1:]
    measure = np.sqrt(1 + 1 / (4 * (x - 0.5)))
    exact = targets.weighted_mean(x, x**2 / 2, measure)
    trace = run(
        point(1.0),
        lambda own: own["q"].square().sum() / 2,
        {"q": cl.General(lambda q: 0.5 - q, inequality=True)},
        chains=150,
    )
    assert float(trace["q"].min()) >= 0.5
    untruncated, half = 0.0, targets.weighted_mean(x, x**2, measure)
    estimate(trace["q"][..., 0]).check(exact, untruncated, half)


def test_a_ladder_has_its_temperatures() -> None:
    """T of each chain: the variance of a Gaussian is T times that at T = 1."""
    factors = [0.25] * 125 + [4.0] * 125
    trace = run(
        point(0.0), lambda own: own["q"].square().sum() / 2, temperature_factor=factors, thin=10
    )
    squares = trace["q"][..., 0].square()
    estimate(squares[:125]).check(0.25, 1.0)
    estimate(squares[125:]).check(4.0, 1.0)
    assert math.isclose(trace.temperatures[0], 0.25)
