"""What every constraint offers besides its own geometry."""

import math

import pytest
import torch
from torch import Size, nn

from colangevin import Circle, CoLA, Constraint, Massive, Orthogonal, Sphere, State, Unconstrained
from colangevin.constraints.base import Vector
from registry import CASES, RUNS, Case, Run, ids, normals

TEMPERATURE = 0.3


def half_square(case: Case, state: State) -> float:
    """½pᵀM⁻¹p of the momentum written out in position and slack; M is 1 without masses."""
    parts = case.ambient(state, Vector(state.momentum, state.slack_momentum))
    constraint = case.make()
    mass = constraint.mass if isinstance(constraint, Massive) else 1.0
    return sum(float((part.square() / mass).sum()) for part in parts if part is not None) / 2


@pytest.mark.parametrize("case", CASES, ids=ids)
def test_kinetic_energy_is_half_the_square_of_the_momentum(case: Case) -> None:
    constraint, state = case.state(temperature=TEMPERATURE)
    energy = float(constraint.kinetic_energy(state))
    assert energy == pytest.approx(half_square(case, state), rel=1e-12)
    assert energy > 0.0


@pytest.mark.parametrize("case", CASES, ids=ids)
def test_sampled_momenta_have_their_temperature(case: Case) -> None:
    """Mean kinetic energy τ/2 a degree of freedom, within 5 standard errors of a χ²."""
    constraint, state = case.state()
    draw = normals(9)
    count = 300
    samples = [constraint.sample_momentum(state, TEMPERATURE, draw) for _ in range(count)]
    energies = [half_square(case, sample) for sample in samples]
    freedom = case.make().degrees_of_freedom([Size(shape) for shape in case.shapes])
    mean = sum(energies) / count
    error = TEMPERATURE / 2 * math.sqrt(2 * freedom / count)
    assert abs(mean - TEMPERATURE / 2 * freedom) <= 5 * error
    worst = max(float(constraint.cotangency(sample).abs().max()) for sample in samples)
    assert worst <= 1e-12


@pytest.mark.parametrize("case", CASES, ids=ids)
def test_the_projector_is_idempotent_and_symmetric(case: Case) -> None:
    constraint, state = case.state()
    draw = normals(10)

    def vector() -> Vector:
        slack = None if state.slack is None else draw(state.slack)
        return Vector(draw(state.position), slack)

    def project(x: Vector) -> Vector:
        return case.ambient(state, constraint.tangent(state, *x))

    def dot(x: Vector, y: Vector) -> float:
        pairs = zip(x, y, strict=True)
        return sum(float((a * b).sum()) for a, b in pairs if a is not None and b is not None)

    x, y = vector(), vector()
    once = project(x)
    for a, b in zip(project(once), once, strict=True):
        if a is not None:
            torch.testing.assert_close(a, b, rtol=0.0, atol=1e-13)
    assert dot(once, y) == pytest.approx(dot(x, project(y)), abs=1e-12)


@pytest.mark.parametrize("case", CASES, ids=ids)
def test_place_leaves_alone_what_is_on_the_manifold(case: Case) -> None:
    constraint, state = case.state()
    assert constraint.excess(state.position) <= 1e-12
    torch.testing.assert_close(
        constraint.place(state.position), state.position, rtol=0.0, atol=1e-14
    )


@pytest.mark.parametrize("run", RUNS[:2], ids=ids)
@pytest.mark.parametrize(
    "constraint",
    [
        Unconstrained(),
        Circle(0.5),
        Circle(torch.linspace(0.1, 1.0, 4).reshape(4, 1, 1, 1)),
        Sphere(0.8),
        Sphere(0.8, equality=True, dim=1),
        Orthogonal(),
    ],
    ids=["unconstrained", "circle", "circle_radii", "sphere", "sphere_channels", "orthogonal"],
)
def test_memory_layout_makes_no_difference(constraint: Constraint, run: Run) -> None:
    """A kernel in channels-last order moves as the same kernel in the usual order."""
    start = 0.1 * normals(1)(torch.empty(4, 3, 2, 2, dtype=torch.float64))
    kernels = [
        nn.Parameter(start.clone(memory_format=layout))
        for layout in (torch.contiguous_format, torch.channels_last)
    ]
    assert kernels[0].stride() != kernels[1].stride()
    for kernel in kernels:
        optimizer = CoLA(
            [kernel],
            constraint=constraint,
            temperature=0.01,
            seed=0,
            **run.options(0.05, 1.0),
        )
        strides = kernel.stride()
        for _ in range(10):
            kernel.grad = torch.sin(5 * kernel.detach()) - 0.3
            optimizer.step()
        assert kernel.stride() == strides
        assert optimizer.violation()[0].residual <= 1e-12
    torch.testing.assert_close(*kernels, rtol=0.0, atol=1e-13)


def test_tensors_of_a_geometry_go_to_the_device_of_the_weights() -> None:
    circle = Circle(torch.ones(3, 1))
    there = circle.on(torch.device("meta"))
    assert isinstance(there, Circle) and isinstance(there.radius, torch.Tensor)
    assert there.radius.is_meta and isinstance(there._inverse, torch.Tensor)
    assert there._inverse.is_meta
    assert isinstance(circle.radius, torch.Tensor) and circle.radius.is_cpu  # a copy was made
    assert circle.on(torch.device("cpu")) is circle
