"""A and B run backwards: time reversal is a flip of the momentum."""

import pytest
import torch

from colangevin import (
    Box,
    Circle,
    Constraint,
    Massive,
    NonNegative,
    Simplex,
    Sphere,
    State,
    Unconstrained,
)
from colangevin.constraints.base import Vector
from colangevin.integrators import pieces
from registry import CASES, Case, ids, normals

STEP = 0.05
TOLERANCE = 1e-11
EXACT = (Unconstrained, Massive, Box, NonNegative, Simplex, Circle, Sphere)
"""Kinds whose drift is the geodesic; that of a subclass may be another."""
GEODESIC = [case for case in CASES if type(case.make()) in EXACT]


def drift(constraint: Constraint, state: State, step: float) -> State:
    """A on a copy."""
    return pieces.drift(constraint, state.map(torch.clone), step)


def kick(constraint: Constraint, state: State, gradient: torch.Tensor, step: float) -> State:
    """B on a copy."""
    return pieces.impulse(constraint, state.map(torch.clone), gradient, 1.0, -step, 0.0, None)


def flip(state: State) -> State:
    slack = state.slack_momentum
    return state._replace(
        momentum=-state.momentum, slack_momentum=None if slack is None else -slack
    )


def assert_same(left: State, right: State, tolerance: float = TOLERANCE) -> None:
    for x, y in zip(left.tensors, right.tensors, strict=True):
        if x is None or y is None:
            assert x is y
        else:
            torch.testing.assert_close(x, y, rtol=tolerance, atol=tolerance)


def size(case: Case, state: State) -> float:
    momentum = case.ambient(state, Vector(state.momentum, state.slack_momentum))
    return float(torch.cat([part.reshape(-1) for part in momentum if part is not None]).norm())


@pytest.mark.parametrize("closing", [True, False], ids=["closed", "open"])
@pytest.mark.parametrize("case", CASES, ids=ids)
def test_drift_with_a_flipped_momentum_comes_back(case: Case, closing: bool) -> None:
    """Also where the momentum on the way is kept modulo the normal space."""
    constraint, start = case.state()
    there = drift(constraint, start, STEP)
    if closing:
        there = constraint.close(there)
    assert float((there.position - start.position).abs().max()) > 1e-3
    assert float(constraint.residual(there).abs().max()) <= 1e-12
    back = constraint.close(flip(drift(constraint, flip(there), STEP)))
    assert_same(back, start)


@pytest.mark.parametrize("case", CASES, ids=ids)
def test_drift_with_a_negative_step_comes_back(case: Case) -> None:
    constraint, start = case.state()
    there = constraint.close(drift(constraint, start, STEP))
    assert_same(constraint.close(drift(constraint, there, -STEP)), start)


@pytest.mark.parametrize("case", CASES, ids=ids)
def test_kick_and_kick_back(case: Case) -> None:
    constraint, start = case.state()
    gradient = normals(3)(start.position)
    there = kick(constraint, start, gradient, STEP)
    assert_same(
        there._replace(momentum=None, slack_momentum=None),
        start._replace(momentum=None, slack_momentum=None),
        0.0,
    )
    assert float((there.momentum - start.momentum).abs().max()) > 1e-3
    assert_same(kick(constraint, there, gradient, -STEP), start)
    assert_same(constraint.close(flip(kick(constraint, flip(there), gradient, STEP))), start)


@pytest.mark.parametrize("case", CASES, ids=ids)
def test_drift_keeps_the_kinetic_energy(case: Case) -> None:
    """Exactly on geodesics; RATTLE keeps it to third order in the step."""
    constraint, start = case.state()
    exact = case in GEODESIC
    errors = []
    for step in (STEP, STEP / 4):
        there = constraint.close(drift(constraint, start, step))
        errors.append(abs(size(case, there) / size(case, start) - 1.0))
    assert errors[0] <= (1e-13 if exact else 0.05)
    assert errors[1] <= max(1e-13, errors[0] / 30)


@pytest.mark.parametrize("case", GEODESIC, ids=ids)
def test_two_half_drifts_are_one(case: Case) -> None:
    constraint, start = case.state()
    halves = drift(constraint, drift(constraint, start, 0.2), 0.2)
    assert_same(halves, drift(constraint, start, 0.4), 1e-13)
