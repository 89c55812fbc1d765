"""Kinetic energy: tau / 2 for each degree of freedom, constraints subtracted.

In the optimizer's units p = -h v, so that the physical energy is lr times that of the buffer.
The chains are cut into groups, whose energies are independent; they relax with the rate of the
friction, 1, and the bias at h = 0.1 is about h^2 / 4, which is 0.25 %, while the standard error
is 1 to 3 %. That tells the manifold's dimension from that of the space around it.
"""

import math
from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor

from chains import Estimate, Run, Target, at_rest, integrate, normals, optimize
from colangevin.constraints import (
    Circle,
    Constraint,
    General,
    Orthogonal,
    Sphere,
    State,
    Unconstrained,
)
from targets import batch_means_mcse

pytestmark = pytest.mark.statistical

GROUPS = 25


class Manifold(NamedTuple):
    """A constraint with a point of it, its dimension and that of the space around it.

    Inequalities live in the space with the slacks.
    """

    constraint: Constraint
    point: list
    dimension: int
    ambient: int

    def target(self, temperature: float = 0.7) -> Target:
        return Target(
            self.constraint,
            torch.tensor(self.point, dtype=torch.float64),
            lambda q: -0.5 * q + 0.3 * q**2,
            temperature,
        )


def ellipse(q: Tensor) -> Tensor:
    return (q / torch.tensor([1.5, 1.0], dtype=q.dtype)).square().sum() - 1.0


def saddle(q: Tensor) -> Tensor:
    """Two equations: a sphere and a curved surface through it."""
    return torch.stack([q.square().sum() - 2.0, q[0] * q[1] - 0.3 * q[2]])


MANIFOLDS = {
    "unconstrained": Manifold(Unconstrained(), [0.2], 1, 1),
    "circle": Manifold(Circle(0.8), 0.2, 1, 2),
    "sphere": Manifold(Sphere(1.2, equality=True), [1.2, 0.0, 0.0], 2, 3),
    "max_norm": Manifold(Sphere(1.2), [0.3, -0.2, 0.1], 3, 4),
    "orthogonal": Manifold(
        Orthogonal(batch_dims=1, scale=1.3), (1.3 * torch.eye(3, 2)).tolist(), 3, 6
    ),
    "square": Manifold(Orthogonal(batch_dims=1), torch.eye(3).tolist(), 3, 9),
    "wide": Manifold(Orthogonal(batch_dims=1), torch.eye(2, 4).tolist(), 5, 8),
    "ellipse": Manifold(General(ellipse, batch_dims=1), [0.0, 1.0], 1, 2),
    "two_equations": Manifold(General(saddle, batch_dims=1), [0.0, 2**0.5, 0.0], 1, 3),
    "bounded": Manifold(General(ellipse, inequality=True, batch_dims=1), [0.3, -0.2], 2, 3),
}


def chunk(tensor: Tensor | None) -> tuple[Tensor, ...] | tuple[None, ...]:
    return (None,) * GROUPS if tensor is None else tensor.chunk(GROUPS)


def energy_per_degree(
    manifold: Manifold, states: Iterable[State], unit: float, batch: Callable[[Tensor], Tensor]
) -> Estimate:
    """2 E / (tau D), which is 1, from the constraint's own energy and degrees of freedom."""
    temperature = manifold.target().temperature
    samples = []
    for state in states:
        groups = zip(*(chunk(tensor) for tensor in state.tensors), strict=True)
        samples.append([])
        for position, momentum, slack, slack_momentum in groups:
            constraint = manifold.constraint.bind([position.shape])
            degrees = manifold.constraint.degrees_of_freedom([position.shape])
            assert degrees == manifold.dimension * len(position)
            part = State(batch(position), batch(momentum), slack, slack_momentum)
            energy = unit * float(constraint.kinetic_energy(part))
            samples[-1].append(2.0 * energy / (temperature * degrees))
    array = np.array(samples)
    return Estimate(float(array.mean()), batch_means_mcse(array, batches=1))


def check(manifold: Manifold, found: Estimate) -> None:
    """A wrong count of degrees, or a wrong temperature, is excluded."""
    wrong = [0.5, 2.0]
    if manifold.ambient != manifold.dimension:
        wrong.append(manifold.ambient / manifold.dimension)
    found.check(1.0, *wrong)


def plan(word: str) -> Run:
    return Run(word, 0.1, burn=4.5, samples=3, every=1.5, chains=1000)


def as_it_is(tensor: Tensor) -> Tensor:
    return tensor


TALL = [name for name in MANIFOLDS if name != "wide"]  # the optimizer transposes


@pytest.mark.parametrize(
    ("name", "word"),
    [
        (name, word)
        for name in TALL
        for word in ("OBA", "BAOAB")
        if (name, word) not in {("two_equations", "BAOAB"), ("bounded", "BAOAB")}
    ],
)
def test_kinetic_energy_of_the_integrators(name: str, word: str) -> None:
    manifold, run = MANIFOLDS[name], plan(word)
    states = integrate(manifold.target(), run, seed=10)
    check(manifold, energy_per_degree(manifold, states, run.step**2, as_it_is))


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("unconstrained", "OBA"),
        ("circle", "OBA"),
        ("sphere", "ABO"),
        ("max_norm", "BAOAB"),
        ("wide", "OBA"),
        ("ellipse", "OBA"),
        ("bounded", "BAOAB"),
    ],
)
def test_kinetic_energy_in_the_optimizer(name: str, word: str) -> None:
    manifold, run = MANIFOLDS[name], plan(word)
    states = optimize(manifold.target(), run, seed=11)
    found = energy_per_degree(manifold, states, run.step**2, manifold.constraint.to_batch)
    check(manifold, found)


@pytest.mark.parametrize("name", TALL)
def test_sampled_momenta_have_the_temperature(name: str) -> None:
    manifold = MANIFOLDS[name]
    target = manifold.target()
    position = target.batch(10_000)
    constraint = manifold.constraint.bind([position.shape])
    state = at_rest(constraint, position, momentum=False)
    drawn = constraint.sample_momentum(state, target.temperature, normals(12))
    check(manifold, energy_per_degree(manifold, [drawn], 1.0, as_it_is))


def test_oba_has_the_temperature_and_the_variance_of_its_own_equations() -> None:
    """On U = k q^2 / 2 the stationary moments of OBA are known exactly, at any step.

    E p^2 = tau / (1 - h^2 k / (2 (1 + c))) and k E q^2 = (1 + c) / 2 of it, c = exp(-gamma h):
    as the friction grows, the positions are at half the temperature.
    """
    stiffness, temperature = 2.0, 0.5
    run = Run("OBA", 0.5, burn=16.0, samples=4, every=4.0, chains=20_000, friction=4.0)
    target = Target(Unconstrained(), torch.tensor(0.0), lambda q: stiffness * q**2 / 2, temperature)
    decay = math.exp(-run.friction * run.step)
    hot = temperature / (1 - run.step**2 * stiffness / (2 * (1 + decay)))
    squares = [
        (stiffness * s.position**2, run.step**2 * s.momentum**2)
        for s in optimize(target, run, seed=13)
    ]
    for values, exact in zip(zip(*squares, strict=True), ((1 + decay) / 2 * hot, hot), strict=True):
        samples = torch.stack(values).numpy()
        found = Estimate(float(samples.mean()), batch_means_mcse(samples, batches=1))
        found.check(exact, temperature)
