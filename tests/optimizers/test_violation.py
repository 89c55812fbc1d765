"""What ``violation()`` says is what there is."""

from __future__ import annotations

import math
import warnings
from typing import Any

import pytest
import torch
from torch import nn

import colangevin as cl
from geometries import Oblique
from optimizer_cases import CONSTRAINTS, constrained, network, optimizer_for, train

every_constraint = pytest.mark.parametrize("constraint", CONSTRAINTS)


def trained(constraint: str, **options: Any) -> tuple[nn.Module, cl.CoLA]:
    model = network(dtype=torch.float32)
    optimizer = optimizer_for(model, constraint, "OBA", **options)
    train(model, optimizer, range(3))
    return model, optimizer


# --- weights and momenta that are no numbers -------------------------------------------------


@every_constraint
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_weights_that_are_not_finite_are_no_fulfilled_constraint(
    constraint: str, value: float
) -> None:
    if constraint == "unconstrained" and math.isinf(value):
        pytest.skip("nothing is asked of a free weight but to be a number")
    model, optimizer = trained(constraint)
    assert optimizer.violation()[0].residual < 1e-5
    with torch.no_grad():
        model[0].weight[1, 2] = value
    found = optimizer.violation()[0].residual
    assert math.isnan(found) if math.isnan(value) else not found < 1e-5


@every_constraint
def test_momenta_of_nan_are_seen(constraint: str) -> None:
    model, optimizer = trained(constraint)
    assert optimizer.violation()[0].cotangency < 1e-5
    optimizer.state[model[2].weight]["momentum_buffer"][1, 2] = math.nan
    assert math.isnan(optimizer.violation()[0].cotangency)


@pytest.mark.parametrize("constraint", [None, cl.Circle(0.5), cl.Sphere(1.0)])
def test_a_step_along_nan_is_seen(constraint: cl.Constraint | None) -> None:
    weight = nn.Parameter(torch.full((2, 2), 0.1))
    optimizer = cl.CoLA([weight], lr=0.1, constraint=constraint)
    weight.grad = torch.tensor([[math.nan, 0.0], [0.0, 0.0]])
    optimizer.step()
    assert weight.isnan().any()
    assert math.isnan(optimizer.violation()[0].residual)


def test_an_empty_parameter_of_a_joint_constraint() -> None:
    first, empty = nn.Parameter(torch.ones(3)), nn.Parameter(torch.zeros(0))
    together = cl.General(lambda x, y: x.square().sum() + y.square().sum() - 1.0)
    optimizer = cl.CoLA([{"params": [first, empty], "constraint": together}], lr=0.01)
    first.grad = torch.tensor([1.0, 0.0, 0.0])
    optimizer.step()
    assert optimizer.violation()[0].residual < 1e-6


# --- cotangency is measured, not assumed -----------------------------------------------------


def test_the_cotangency_of_float32_momenta_is_of_roundings_size() -> None:
    torch.manual_seed(0)
    weight = nn.Parameter(torch.randn(20, 8))
    optimizer = cl.CoLA([weight], lr=0.01, momentum=0.9, constraint=cl.Orthogonal())
    for _ in range(10):
        weight.grad = torch.randn(20, 8)
        optimizer.step()
    found = optimizer.violation()[0].cotangency
    # float64 arithmetic on a momentum that had been projected in float64 would give 1e-16.
    assert 1e-10 < found <= 1e-6


def test_a_projection_that_leaves_the_tangent_space_is_seen() -> None:
    torch.manual_seed(0)
    found = []
    for constraint in (cl.Orthogonal(), Oblique()):
        weight = nn.Parameter(torch.randn(6, 3, dtype=torch.float64))
        optimizer = cl.CoLA([weight], lr=0.01, momentum=0.9, constraint=constraint)
        for _ in range(3):
            weight.grad = torch.randn(6, 3, dtype=torch.float64)
            optimizer.step()
        found.append(optimizer.violation()[0].cotangency)
    assert found[0] < 1e-12
    assert found[1] > 1e-2


# --- what projections needed -----------------------------------------------------------------


def far_step(optimizer: cl.CoLA, weight: nn.Parameter, lr: float = 50.0) -> None:
    """A step so long that the iteration does not converge."""
    optimizer.param_groups[0]["lr"] = lr
    weight.grad = torch.linspace(-1.0, 1.0, weight.numel()).reshape(weight.shape)
    optimizer.step()


def orthogonal(constraint: cl.Constraint) -> tuple[cl.CoLA, nn.Parameter]:
    weight = nn.Parameter(torch.eye(6, 3))
    return cl.CoLA([weight], lr=0.01, momentum=0.9, constraint=constraint), weight


@every_constraint
def test_there_is_a_count_of_iterations_and_of_fallbacks(constraint: str) -> None:
    _, optimizer = trained(constraint)
    iterates = constraint == "orthogonal" or constraint.startswith("general")
    for index, group in enumerate(optimizer.violation()):
        assert isinstance(group, cl.Violation)
        assert group._fields == (
            "residual",
            "cotangency",
            "iterations",
            "fallbacks",
            "at_bound",
            "members",
        )
        assert group.members == ()
        assert isinstance(group.iterations, int) and isinstance(group.fallbacks, int)
        assert (group.iterations > 0) == (iterates and index == 0)
        assert group.fallbacks == 0


def test_fallbacks_are_counted_for_the_optimizer() -> None:
    optimizer, weight = orthogonal(cl.Orthogonal())
    with pytest.warns(cl.ProjectionWarning):
        far_step(optimizer, weight)
    assert optimizer.violation()[0].fallbacks == 1
    assert optimizer.violation()[0].residual < 1e-5
    far_step(optimizer, weight)
    assert optimizer.violation()[0].fallbacks == 2


def test_each_optimizer_warns_once_whoever_shares_its_constraint() -> None:
    shared = cl.Orthogonal()
    pairs = [orthogonal(shared), orthogonal(shared)]
    counts = []
    for optimizer, weight in pairs:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            far_step(optimizer, weight)
            far_step(optimizer, weight)
        counts.append(sum(issubclass(w.category, cl.ProjectionWarning) for w in caught))
    assert counts == [1, 1]


def test_a_geometry_remembers_nothing() -> None:
    shared = cl.Orthogonal()
    before = repr(vars(shared))
    optimizer, weight = orthogonal(shared)
    other, _ = orthogonal(shared)
    with pytest.warns(cl.ProjectionWarning):
        far_step(optimizer, weight)
    assert repr(vars(shared)) == before
    assert not hasattr(shared, "fallbacks")
    assert other.violation()[0].fallbacks == 0


def test_a_network_counts_by_group() -> None:
    model = network(dtype=torch.float32)
    optimizer = cl.CoLA(constrained(model, cl.Orthogonal()), lr=0.01, momentum=0.9)
    train(model, optimizer, range(1))
    optimizer.param_groups[0]["lr"] = 1e4
    with pytest.warns(cl.ProjectionWarning):
        train(model, optimizer, range(1, 2))
    first, rest = optimizer.violation()
    assert first.fallbacks == 2  # two matrices
    assert rest.fallbacks == 0
