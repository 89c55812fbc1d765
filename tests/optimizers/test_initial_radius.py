"""``Circle(radius="initial")``: every weight tensor has a radius from its own first weights."""

from __future__ import annotations

import copy
import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import colangevin as cl
from optimizer_cases import same, train, values_of

FACTOR = 2.0


def two_layers(seed: int = 0) -> nn.Sequential:
    """Two layers whose initial weights have different ranges."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1)).double()
        with torch.no_grad():
            model[2].weight.mul_(0.1)
        return model


def largest(weight: Tensor) -> float:
    return float(weight.detach().abs().max())


def made(model: nn.Module, factor: float = FACTOR, **options: Any) -> cl.CoLA:
    groups = cl.parameter_groups(model, {"*.weight": cl.Circle(radius="initial", factor=factor)})
    return cl.CoLA(groups, **{"lr": 0.05, "momentum": 0.9, **options})


def pressed(model: nn.Module, optimizer: cl.CoLA, steps: int = 300) -> None:
    """Steps outwards, until the bound alone holds the weights."""
    for _ in range(steps):
        for parameter in model.parameters():
            push(parameter)
        optimizer.step()


def push(parameter: Tensor) -> None:
    """A gradient that points outwards and is of the size of the weights."""
    parameter.grad = -torch.full_like(parameter, largest(parameter))


def numbers_within(value: Any) -> list[float]:
    """Every number in a state dict."""
    if isinstance(value, Tensor):
        return value.reshape(-1).double().tolist()
    if isinstance(value, dict):
        return [n for item in value.values() for n in numbers_within(item)]
    if isinstance(value, (list, tuple)):
        return [n for item in value for n in numbers_within(item)]
    return [value] if isinstance(value, float) else []


@pytest.mark.parametrize("factor", [1.5, 2.0, 10.0])
def test_each_tensor_is_held_by_its_own_radius(factor: float) -> None:
    model = two_layers()
    radii = {i: factor * largest(model[i].weight) for i in (0, 2)}
    assert radii[0] > 2 * radii[2]
    before = copy.deepcopy(model.state_dict())
    optimizer = made(model, factor)
    assert same(model.state_dict(), before)  # all weights are within it, so none moves
    pressed(model, optimizer)
    for index, radius in radii.items():
        assert 0.99 * radius < largest(model[index].weight) <= radius * (1 + 1e-6)
    assert optimizer.violation()[0].residual < 1e-10


def test_a_state_dict_carries_the_radii() -> None:
    model = two_layers()
    radii = [FACTOR * largest(model[i].weight) for i in (0, 2)]
    found = numbers_within(made(model).state_dict())
    for radius in radii:
        assert any(math.isclose(radius, n, rel_tol=1e-6) for n in found)


def test_a_resumed_run_keeps_the_first_radii() -> None:
    """The weights of a checkpoint are no initial weights."""
    model = two_layers()
    radii = {i: FACTOR * largest(model[i].weight) for i in (0, 2)}
    optimizer = made(model)
    pressed(model, optimizer, steps=20)
    saved = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
    pressed(model, optimizer)

    resumed = two_layers(seed=9)
    resumed.load_state_dict(saved[0])
    second = made(resumed)
    second.load_state_dict(saved[1])
    pressed(resumed, second)
    assert same(values_of(second), values_of(optimizer))
    for index, radius in radii.items():
        assert largest(resumed[index].weight) <= radius * (1 + 1e-6)


def test_one_constraint_may_serve_two_networks() -> None:
    """It is resolved for each weight, and keeps nothing of it."""
    shared = cl.Circle(radius="initial", factor=FACTOR)
    small, large = nn.Parameter(torch.full((3,), 0.1)), nn.Parameter(torch.full((3,), 1.0))
    for weight in (small, large, small):
        radius = FACTOR * largest(weight)
        optimizer = cl.CoLA([weight], lr=0.05, momentum=0.9, constraint=shared)
        for _ in range(300):
            push(weight)
            optimizer.step()
        assert 0.99 * radius < largest(weight) <= radius


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_other_dtypes(dtype: torch.dtype) -> None:
    weight = nn.Parameter(torch.tensor([0.1, -0.3, 0.2], dtype=dtype))
    radius = FACTOR * largest(weight)
    optimizer = cl.CoLA(
        [weight], lr=0.05, momentum=0.9, constraint=cl.Circle(radius="initial", factor=FACTOR)
    )
    for _ in range(100):
        push(weight)
        optimizer.step()
    assert 0.95 * radius < largest(weight) <= radius


def test_training_as_usual() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1)).double()
    radii = [FACTOR * largest(model[i].weight) for i in (0, 2)]
    optimizer = made(model, temperature=1e-3)
    train(model, optimizer, range(20))
    assert optimizer.violation()[0].residual < 1e-10
    for index, radius in zip((0, 2), radii, strict=True):
        assert largest(model[index].weight) <= radius


def test_members_of_an_ensemble_have_their_own_radii() -> None:
    seeds = [3, 4, 5]

    def factory() -> nn.Module:
        return nn.Linear(4, 3, bias=False).double()

    radii = []
    for seed in seeds:
        torch.manual_seed(seed)
        radii.append(FACTOR * largest(factory().weight))
    rules = {"weight": cl.Circle(radius="initial", factor=FACTOR)}
    ensemble = cl.Ensemble(factory, seeds, rules, compile=False, lr=0.1, momentum=0.9)
    inputs = torch.ones(3, 2, 4, dtype=torch.float64)
    for _ in range(200):
        ensemble.step(lambda outputs, _: -outputs.sum(), inputs, inputs)
    for index, radius in enumerate(radii):
        found = largest(ensemble.member(index).weight)
        assert 0.99 * radius < found <= radius * (1 + 1e-6)


@pytest.mark.parametrize("factor", [0.0, -1.0, math.nan, math.inf, "two"])
def test_a_factor_that_is_none(factor: Any) -> None:
    cl.Circle(radius="initial", factor=FACTOR)
    with pytest.raises((ValueError, TypeError), match="factor"):
        cl.Circle(radius="initial", factor=factor)


@pytest.mark.parametrize("radius", ["other", "auto", ""])
def test_another_word_is_refused(radius: str) -> None:
    with pytest.raises((ValueError, TypeError), match=r"radius.*initial"):
        cl.Circle(radius=radius)


def test_a_tensor_of_zeros_has_no_range() -> None:
    weight = nn.Parameter(torch.zeros(3))
    with pytest.raises(cl.ConstraintError, match=r"initial|zero"):
        cl.CoLA([weight], lr=0.1, constraint=cl.Circle(radius="initial", factor=FACTOR))
