"""What an optimizer holds does not grow with the number of steps."""

from __future__ import annotations

import gc
import random
import sys
from contextlib import suppress

import pytest
import torch
from torch import Tensor, nn

import colangevin as cl
from geometries import users_own

SHAPE, COUNT = (64, 32), 24
WEIGHTS = COUNT * SHAPE[0] * SHAPE[1] * 4


def live_bytes() -> int:
    """The bytes of all tensors in the process; other tests may leave traced ones without memory."""
    gc.collect()
    sizes = {}
    for item in gc.get_objects():
        if issubclass(type(item), Tensor) and item.layout == torch.strided:
            with suppress(RuntimeError):
                storage = item.untyped_storage()
                sizes[storage.data_ptr()] = storage.nbytes()
    return sum(sizes.values())


def live_objects() -> int:
    gc.collect()
    return len(gc.get_objects())


@pytest.mark.parametrize(
    "constraint, momentum",
    [(cl.Circle(0.5), 0.9), (cl.Sphere(1.0), 0.9), (cl.Orthogonal(), 0.9), (cl.Circle(0.5), 0.0)],
    ids=["circle", "sphere", "orthogonal", "overdamped"],
)
def test_gradients_that_come_and_go_take_no_memory(
    constraint: cl.Constraint, momentum: float
) -> None:
    """As in mixtures of experts and stochastic depth: another set of parameters at each step."""
    torch.manual_seed(0)
    chance = random.Random(0)
    gradient = 0.01 * torch.randn(SHAPE)
    before = live_bytes()
    weights = [nn.Parameter(0.1 * torch.randn(SHAPE)) for _ in range(COUNT)]
    optimizer = cl.CoLA(weights, lr=0.01, momentum=momentum, constraint=constraint)
    held = {}
    for step in range(1, 301):
        for weight in weights:
            weight.grad = gradient if chance.random() < 0.5 else None
        optimizer.step()
        if step in (30, 300):
            held[step] = live_bytes() - before
    assert held[300] <= 3 * held[30]
    assert held[300] <= 6 * WEIGHTS


@pytest.mark.parametrize("fused", [None, False, True])
@pytest.mark.parametrize("own", [False, True], ids=["circle", "a user's own"])
def test_schedules_leave_nothing_behind(own: bool, fused: bool | None) -> None:
    constraint = users_own(cl.Circle(0.5)) if own else cl.Circle(0.5)
    weight = nn.Parameter(torch.linspace(-0.4, 0.4, 200))
    weight.grad = torch.ones(200)
    try:
        optimizer = cl.CoLA([weight], lr=0.1, momentum=0.9, constraint=constraint, fused=fused)
        optimizer.step()
    except (RuntimeError, TypeError):
        assert fused  # there is no kernel for it
        return
    counts = []
    for step in range(1, 221):
        optimizer.param_groups[0].update(lr=0.1 / step, momentum=0.9 - 1e-3 * step)
        optimizer.step()
        if step in (110, 220):
            counts.append((live_objects(), sys.getrefcount(constraint)))
    assert counts[1][0] - counts[0][0] < 100
    assert counts[1][1] - counts[0][1] < 10  # a list of one and the same object grows too


def test_replaced_constraints_are_let_go() -> None:
    weight = nn.Parameter(torch.full((6, 4), 0.1))
    optimizer = cl.CoLA([weight], lr=1e-3, momentum=0.9, constraint=cl.Circle(0.5))
    counts = []
    for step in range(1, 221):
        optimizer.param_groups[0]["constraint"] = cl.Circle(0.5 + 1e-3 * step)
        weight.grad = torch.ones(6, 4)
        optimizer.step()
        if step in (110, 220):
            counts.append(live_objects())
    assert counts[1] - counts[0] < 100
