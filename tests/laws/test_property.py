"""Shapes, radii, step sizes, temperatures and dtypes over many decades: no violation, no NaN."""

import math
import warnings
from collections.abc import Callable

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Size, Tensor, nn

from colangevin import (
    Box,
    Circle,
    CoLA,
    Constraint,
    ConvergenceError,
    DiagonalGram,
    General,
    Orthogonal,
    ProjectionWarning,
    Simplex,
    Spectral,
    Sphere,
    State,
    Unconstrained,
)
from colangevin.constraints.base import Vector
from registry import CASES, RUNS, TOLERANCE, Case, Run, as_it_is, ids, normals, of_angular_speed

Ambient = Callable[[State, Vector], Vector]

repeatable = settings(
    derandomize=True,
    database=None,
    deadline=None,
    max_examples=80,
    suppress_health_check=[HealthCheck.too_slow],
)


def decades(low: float, high: float) -> st.SearchStrategy[float]:
    return st.floats(low, high).map(lambda exponent: 10.0**exponent)


LENGTHS = st.integers(1, 5)
DTYPES = st.sampled_from([torch.float32, torch.float64])
TEMPERATURES = st.just(0.0) | decades(-6, 1)


@st.composite
def circles(draw: st.DrawFn) -> tuple[Constraint, Size]:
    shape = Size(draw(st.lists(LENGTHS, min_size=0, max_size=3)))
    radius = draw(decades(-3, 3))
    if shape and draw(st.booleans()):
        spread = torch.logspace(0, 2, shape[0], dtype=torch.float64)
        return Circle(radius * spread.reshape(-1, *[1] * (len(shape) - 1))), shape
    return Circle(radius), shape


@st.composite
def spheres(draw: st.DrawFn) -> tuple[Constraint, Size]:
    shape = Size(draw(st.lists(st.integers(2, 5), min_size=1, max_size=4)))
    dim = draw(st.integers(-len(shape), len(shape) - 1))
    return Sphere(draw(decades(-3, 3)), equality=draw(st.booleans()), dim=dim), shape


@st.composite
def orthogonals(draw: st.DrawFn) -> tuple[Constraint, Size]:
    batch_dims = draw(st.integers(0, 1))
    lengths = draw(st.lists(st.integers(2, 6), min_size=2 + batch_dims, max_size=4))
    return Orthogonal(scale=draw(decades(-2, 2)), batch_dims=batch_dims), Size(lengths)


@st.composite
def generals(draw: st.DrawFn) -> tuple[Constraint, Size]:
    radius = draw(decades(-2, 2))

    def ellipsoid(w: Tensor) -> Tensor:
        factors = torch.linspace(1.0, 1.5, len(w), dtype=w.dtype)
        return (factors * w / radius).square().sum() - 1.0

    rows = draw(st.integers(1, 2))
    shape = Size([rows, draw(st.integers(2, 3))])
    projection = draw(st.sampled_from(["oblique", "orthogonal"]))
    return General(ellipsoid, draw(st.booleans()), projection, batch_dims=1), shape


@st.composite
def boxes(draw: st.DrawFn) -> tuple[Constraint, Size]:
    shape = Size(draw(st.lists(LENGTHS, min_size=0, max_size=3)))
    low = draw(st.floats(-2.0, 1.0))
    high = low + draw(decades(-3, 3))
    if shape and draw(st.booleans()):
        return Box(torch.linspace(low - 1.0, low, shape[-1], dtype=torch.float64), high), shape
    return draw(st.sampled_from([Box(low, high), Box(low, None), Box(None, high)])), shape


@st.composite
def simplices(draw: st.DrawFn) -> tuple[Constraint, Size]:
    shape = Size(draw(st.lists(st.integers(2, 5), min_size=1, max_size=3)))
    return Simplex(draw(st.integers(-len(shape), len(shape) - 1))), shape


@st.composite
def matrices(draw: st.DrawFn) -> tuple[Constraint, Size]:
    batch_dims = draw(st.integers(0, 1))
    shape = Size(draw(st.lists(LENGTHS, min_size=2 + batch_dims, max_size=4)))
    if draw(st.booleans()):
        return DiagonalGram(batch_dims=batch_dims), shape
    equality = draw(st.booleans()) and max(shape[batch_dims:]) > 1
    return Spectral(draw(decades(-2, 2)), equality, batch_dims), shape


PROBLEMS = {
    "box": boxes(),
    "simplex": simplices(),
    "matrix": matrices(),
    "unconstrained": LENGTHS.map(lambda n: (Unconstrained(), Size([n]))),
    "circle": circles(),
    "sphere": spheres(),
    "orthogonal": orthogonals(),
    "general": generals(),
}


def radius_of(constraint: Constraint) -> float:
    """The length that steps must be compared with."""
    if isinstance(constraint, General):
        weight = constraint.bind([Size([1, 2])]).place(torch.ones(1, 2, dtype=torch.float64))
        return float(weight.norm())
    return 1.0


@pytest.mark.parametrize("kind", PROBLEMS)
def test_no_violation_and_no_nan(kind: str) -> None:
    few = settings(repeatable, max_examples=12) if kind == "general" else repeatable

    @few
    @given(
        problem=PROBLEMS[kind],
        run=st.sampled_from(RUNS),
        step=decades(-4, 0.5),
        friction=decades(-2, 2),
        temperature=TEMPERATURES,
        steepness=decades(-2, 2),
        dtype=DTYPES,
        seed=st.integers(0, 1000),
    )
    def holds(
        problem: tuple[Constraint, Size],
        run: Run,
        step: float,
        friction: float,
        temperature: float,
        steepness: float,
        dtype: torch.dtype,
        seed: int,
    ) -> None:
        constraint, shape = problem
        length = radius_of(constraint)
        fresh = normals(seed)
        raw = length * (0.5 + fresh(torch.empty(shape, dtype=dtype)))
        weight = nn.Parameter(raw)
        optimizer = CoLA(
            [weight],
            constraint=constraint,
            temperature=temperature * length**2,
            seed=seed,
            **run.options(step, friction),
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ProjectionWarning)
            for _ in range(6):
                weight.grad = steepness * length * fresh(weight)
                before = weight.detach().clone()
                try:
                    optimizer.step()
                except ConvergenceError:  # only General may say so, and leaves all as it was
                    assert kind == "general"
                    assert torch.equal(weight.detach(), before)
                    break
        (violation,) = optimizer.violation()
        assert violation.residual <= TOLERANCE[dtype]
        # A polar factor may leave a momentum that is all normal, and a relative 0/0.
        if not violation.fallbacks:
            assert violation.cotangency <= TOLERANCE[dtype]
        for tensor in (weight.detach(), *optimizer.state[weight].values()):
            assert bool(tensor.isfinite().all())

    holds()


def trace_of_projector(constraint: Constraint, state: State, ambient: Ambient) -> float:
    """Σ_k e_kᵀ Π e_k over the entries of position and slack."""
    sizes = [state.position.numel(), 0 if state.slack is None else state.slack.numel()]
    total = 0.0
    for k, unit in enumerate(torch.eye(sum(sizes), dtype=state.position.dtype)):
        main, slack = unit.split(sizes)
        image = constraint.tangent(
            state,
            main.reshape(state.position.shape),
            None if state.slack is None else slack.reshape(state.slack.shape),
        )
        parts = ambient(state, image)
        total += float(torch.cat([p.reshape(-1) for p in parts if p is not None])[k])
    return total


@pytest.mark.parametrize("case", CASES, ids=ids)
def test_degrees_of_freedom_are_the_trace_of_the_projector(case: Case) -> None:
    constraint, state = case.state(seed=8)
    freedom = case.make().degrees_of_freedom([Size(shape) for shape in case.shapes])
    trace = trace_of_projector(constraint, state, case.ambient)
    assert trace == pytest.approx(freedom, abs=1e-9)


@settings(repeatable, max_examples=20)
@given(
    problem=st.one_of(
        circles(), spheres(), orthogonals(), generals(), boxes(), simplices(), matrices()
    ),
    seed=st.integers(0, 1000),
)
def test_degrees_of_freedom_for_any_shape(problem: tuple[Constraint, Size], seed: int) -> None:
    constraint, shape = problem
    length, bound = radius_of(constraint), constraint.bind([shape])
    raw = length * (0.5 + normals(seed)(torch.empty(shape, dtype=torch.float64)))
    position = bound.place(bound.to_batch(raw))
    state = State(position, slack=bound.lift(position))
    freedom = constraint.degrees_of_freedom([shape])
    ambient = of_angular_speed(bound.radius) if isinstance(bound, Circle) else as_it_is
    assert trace_of_projector(bound, state, ambient) == pytest.approx(freedom, abs=1e-8)
    assert 0 <= freedom <= math.prod(shape)


@repeatable
@given(
    problem=st.one_of(circles(), spheres(), orthogonals(), boxes(), simplices(), matrices()),
    seed=st.integers(0, 1000),
)
def test_layout_comes_back(problem: tuple[Constraint, Size], seed: int) -> None:
    constraint, shape = problem
    weight = normals(seed)(torch.empty(shape))
    bound = constraint.bind([shape])
    assert torch.equal(bound.from_batch(bound.to_batch(weight), shape), weight)
