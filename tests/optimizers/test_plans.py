"""A plan serves as long as it holds; what it leaves behind is as it should be."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch
from torch import Tensor, nn

import colangevin as cl


def step(optimizer: cl.CoLA, *weights: nn.Parameter) -> None:
    for weight in weights:
        weight.grad = torch.full_like(weight, 0.1)
    optimizer.step()


@pytest.mark.parametrize("fused", [None, False])
@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("after", [0, 3])
def test_a_new_constraint_holds_from_the_next_step_on(after: int, strict: bool, fused) -> None:
    """A mark said that the weight was on its manifold, which was another one."""
    torch.manual_seed(0)
    weight = nn.Parameter(0.1 * torch.randn(4, 3))
    options = {"lr": 0.01, "momentum": 0.9, "strict": strict, "fused": fused}
    optimizer = cl.CoLA([weight], constraint=cl.Circle(0.5), **options)
    for _ in range(after):
        step(optimizer, weight)
    optimizer.param_groups[0]["constraint"] = cl.Orthogonal()
    if strict:
        with pytest.raises(cl.ConstraintError, match="off the manifold"):
            step(optimizer, weight)
        optimizer.param_groups[0]["constraint"] = cl.Circle(0.5)
    step(optimizer, weight)
    assert optimizer.violation()[0].residual < 1e-5


@pytest.mark.parametrize("fused", [None, False])
def test_a_weight_that_is_cut_short_is_noticed(fused) -> None:
    """Address and strides are the same; a kernel read beyond the new gradient."""
    weight = nn.Parameter(torch.randn(6, 3))
    optimizer = cl.CoLA([weight], lr=0.1, fused=fused)
    for _ in range(3):
        step(optimizer, weight)
    whole, before = weight.data, weight.data.clone()
    weight.data = whole[:2]
    weight.grad = None
    step(optimizer, weight)
    assert torch.equal(whole[2:], before[2:])
    torch.testing.assert_close(whole[:2], before[:2] - 0.01)


def test_parameters_that_stay_behind_do_not_keep_the_memory_of_others() -> None:
    weights = [nn.Parameter(torch.randn(20, 10)) for _ in range(20)]
    optimizer = cl.CoLA(weights, lr=0.01, momentum=0.9, constraint=cl.Sphere(1.0))
    for first in range(len(weights)):
        for weight in weights[:first]:
            weight.grad = None
        step(optimizer, *weights[first:])
    tensors = [t for entry in optimizer.state.values() for t in entry.values()]
    storages = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tensors}
    assert sum(storages.values()) < 1.2 * sum(t.numel() * t.element_size() for t in tensors)


@pytest.mark.parametrize("lr", [0.0, 0.1])
def test_noise_follows_its_parameter_when_an_earlier_group_loses_one(lr: float) -> None:
    found = []
    for removed in (True, False):
        torch.manual_seed(0)
        first = [nn.Parameter(torch.ones(3)) for _ in range(2)]
        last = nn.Parameter(torch.ones(3))
        groups = [{"params": first if removed else first[1:]}, {"params": [last]}]
        optimizer = cl.CoLA(groups, lr=0.1, momentum=0.5, temperature=0.1, seed=1)
        optimizer.param_groups[0]["lr"] = lr
        if removed:
            optimizer.param_groups[0]["params"].pop(0)
        for _ in range(3):
            step(optimizer, first[1], last)
        found.append(last.detach().clone())
    assert torch.equal(*found)


def test_a_group_that_rests_does_not_undo_the_plans_of_others() -> None:
    weights = [nn.Parameter(torch.ones(3)) for _ in range(2)]
    optimizer = cl.CoLA([{"params": [w]} for w in weights], lr=0.1, momentum=0.5)
    step(optimizer, *weights)
    optimizer.load_state_dict(optimizer.state_dict())
    optimizer.param_groups[0]["lr"] = 0.0
    step(optimizer, *weights)
    kept = optimizer._plans[1]
    step(optimizer, *weights)
    assert optimizer._plans[1] is kept


class Breaks(cl.Orthogonal):
    """A drift that fails on demand."""

    broken = False

    def drift(self, state, step):
        if Breaks.broken:
            raise cl.ConvergenceError("no")
        return super().drift(state, step)


def failed(optimizer: cl.CoLA, *weights: nn.Parameter) -> None:
    Breaks.broken = True
    try:
        with pytest.raises(cl.ConvergenceError):
            step(optimizer, *weights)
    finally:
        Breaks.broken = False


def test_gradients_of_a_failed_step_are_not_kept() -> None:
    weight = nn.Parameter(torch.eye(3))
    optimizer = cl.CoLA([weight], lr=0.1, momentum=0.9, constraint=Breaks())
    step(optimizer, weight)
    failed(optimizer, weight)
    kept: weakref.ref[Tensor] = weakref.ref(weight.grad)
    weight.grad = None
    gc.collect()
    assert kept() is None


def test_a_failed_step_gives_the_friction_variable_back() -> None:
    weight, other = nn.Parameter(torch.eye(3)), nn.Parameter(torch.ones(3))
    groups = [
        {"params": [other], "thermostat": "adaptive", "temperature": 0.1},
        {"params": [weight], "constraint": Breaks()},
    ]
    optimizer = cl.CoLA(groups, step_size=0.1, friction=1.0)
    for _ in range(3):
        step(optimizer, weight, other)
    before = float(optimizer.state[other]["friction"])
    saved = dict(optimizer.param_groups[0])
    optimizer.param_groups[0].update(
        thermostat="langevin", coupling=None, driving_noise=None, scheme="OBA"
    )
    failed(optimizer, weight, other)
    assert float(optimizer.state[other]["friction"]) == before
    optimizer.param_groups[0].update(saved)
    step(optimizer, weight, other)
    assert float(optimizer.state[other]["friction"]) != before
