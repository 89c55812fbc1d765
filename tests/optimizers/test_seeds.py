"""Noise is a function of seed, parameter and its own count of steps, and of nothing else."""

from __future__ import annotations

import copy
import gc
import warnings
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import colangevin as cl
from optimizer_cases import (
    CONSTRAINTS,
    SCHEMES,
    constrained,
    network,
    optimizer_for,
    same,
    train,
    values_of,
)
from optimizers_registry import OPTIMIZERS, OptimizerCase, snapshot
from registry import ids

OURS = [c for c in OPTIMIZERS if not c.name.startswith(("Multirate", "SubsetMultirate"))]
every_optimizer = pytest.mark.parametrize("case", OURS, ids=ids)
every_constraint = pytest.mark.parametrize("constraint", CONSTRAINTS)
every_scheme = pytest.mark.parametrize("scheme", SCHEMES)


def weights(count: int, *shape: int) -> list[nn.Parameter]:
    return [nn.Parameter(torch.zeros(shape, dtype=torch.float64)) for _ in range(count)]


def diffuse(optimizer: cl.CoLA, moving: list[list[nn.Parameter]]) -> None:
    """One step for each list of parameters, along gradients of zero: only noise moves them."""
    everybody = [p for group in optimizer.param_groups for p in group["params"]]
    for step in moving:
        for parameter in everybody:
            parameter.grad = None
        for parameter in step:
            parameter.grad = torch.zeros_like(parameter)
        optimizer.step()


# --- the seed --------------------------------------------------------------------------------


def test_the_seed_is_in_the_groups() -> None:
    model = network()
    optimizer = cl.CoLA(constrained(model, cl.Circle(0.5)), lr=0.1, temperature=0.1, seed=5)
    assert [group["seed"] for group in optimizer.param_groups] == [5, 5]
    assert [group["seed"] for group in optimizer.state_dict()["param_groups"]] == [5, 5]


@pytest.mark.parametrize("case", OURS, ids=ids)
def test_every_method_has_the_seed_it_is_given(case: OptimizerCase) -> None:
    for seed in (3, 4):
        _, optimizer = case.start(seed=seed)
        assert {group["seed"] for group in optimizer.param_groups} == {seed}


def test_equal_seeds_are_equal_runs_and_others_are_not() -> None:
    found = []
    for seed in (5, 5, 6):
        (weight,) = weights(1, 20)
        optimizer = cl.CoLA([weight], lr=0.1, momentum=0.9, temperature=1.0, seed=seed)
        diffuse(optimizer, [[weight]] * 3)
        found.append(weight.detach())
    assert same(found[0], found[1])
    assert not (found[0] == found[2]).any()


@pytest.mark.parametrize("seed", [-1, 1.5, True, "five", float("nan")])
def test_a_seed_that_is_none(seed: Any) -> None:
    cl.CoLA(weights(1, 2), lr=0.1, temperature=1.0, seed=5)
    with pytest.raises((ValueError, TypeError), match="seed"):
        cl.CoLA(weights(1, 2), lr=0.1, temperature=1.0, seed=seed)


def test_the_global_stream_is_not_used_up() -> None:
    torch.manual_seed(0)
    expected = torch.randn(3)
    torch.manual_seed(0)
    (weight,) = weights(1, 20)
    optimizer = cl.CoLA([weight], lr=0.1, temperature=1.0, seed=5)
    diffuse(optimizer, [[weight]] * 3)
    assert same(torch.randn(3), expected)


# --- what the state has, and when -------------------------------------------------------------


@every_scheme
@every_constraint
def test_every_parameter_has_a_state_from_the_beginning(constraint: str, scheme: str) -> None:
    model = network()
    optimizer = optimizer_for(model, constraint, scheme)
    bounded = constraint in ("circle", "circle of radii", "max-norm", "general inequality")
    for name, parameter in model.named_parameters():
        entry = optimizer.state[parameter]
        assert int(entry["step"]) == 0
        if scheme != "overdamped":
            assert same(entry["momentum_buffer"], torch.zeros_like(parameter))
        if bounded and name in ("0.weight", "2.weight"):
            own = "circle" in constraint  # which keeps the angle
            assert ((entry["slack"].cos() if own else entry["slack"]) > 0).all()


def test_a_parameter_counts_its_own_steps() -> None:
    first, second = parameters = weights(2, 3)
    optimizer = cl.CoLA(parameters, lr=0.1, temperature=0.1, seed=5)
    diffuse(optimizer, [[first, second], [second], [second]])
    assert int(optimizer.state[first]["step"]) == 1
    assert int(optimizer.state[second]["step"]) == 3


@every_optimizer
def test_a_state_dict_has_the_keys_that_every_tool_knows(case: OptimizerCase) -> None:
    model, optimizer = case.start()
    case.train(model, optimizer, range(2))
    assert set(optimizer.state_dict()) == {"state", "param_groups"}


@every_scheme
@every_constraint
@pytest.mark.parametrize("temperature", [0.0, 1e-2])
def test_a_step_of_length_zero_changes_nothing_at_all(
    constraint: str, scheme: str, temperature: float
) -> None:
    model = network()
    optimizer = optimizer_for(model, constraint, scheme, temperature)
    train(model, optimizer, range(3))
    rates = [group["lr"] for group in optimizer.param_groups]
    for group in optimizer.param_groups:
        group["lr"] = 0.0
    before = snapshot(optimizer)
    train(model, optimizer, range(3, 5))
    assert same(snapshot(optimizer), before)
    for group, rate in zip(optimizer.param_groups, rates, strict=True):
        group["lr"] = rate
    train(model, optimizer, range(5, 6))
    assert all(int(entry["step"]) == 4 for entry in optimizer.state.values())


@every_optimizer
def test_a_method_without_a_step_changes_nothing_at_all(case: OptimizerCase) -> None:
    model, optimizer = case.start()
    case.train(model, optimizer, range(3))
    for group in optimizer.param_groups:
        group["lr"] = 0.0
    before = snapshot(optimizer)
    case.train(model, optimizer, range(3, 5))
    after = snapshot(optimizer)
    for name in ("weights", "state"):
        assert same(after[name], before[name])


# --- the same numbers alone or together -------------------------------------------------------


@every_scheme
@every_constraint
def test_groups_do_not_matter(constraint: str, scheme: str) -> None:
    """Parameters in the same order have the same noise, in one group or in several."""
    if constraint == "general of two":
        pytest.skip("a constraint on two parameters is one group")
    names = ("0.weight", "2.weight", "0.bias", "2.bias")
    joint, apart = network(), network()
    make = CONSTRAINTS[constraint]
    one = [
        {"params": [joint.get_parameter(n) for n in names[:2]], "constraint": make()},
        {"params": [joint.get_parameter(n) for n in names[2:]]},
    ]
    many = [
        {"params": [apart.get_parameter(n)], "constraint": make() if "weight" in n else None}
        for n in names
    ]
    for model, groups in ((joint, one), (apart, many)):
        train(model, cl.CoLA(groups, temperature=1e-2, seed=5, **SCHEMES[scheme]), range(5))
    for name in names:
        torch.testing.assert_close(
            joint.get_parameter(name), apart.get_parameter(name), rtol=0, atol=1e-9
        )


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("constraint", [None, cl.Circle(0.5), cl.Sphere(2.0)])
def test_neighbours_do_not_matter(constraint: cl.Constraint | None, momentum: float) -> None:
    """Neither those that come after a parameter nor those that rest."""
    options: dict[str, Any] = {"lr": 0.1, "momentum": momentum, "temperature": 0.01, "seed": 5}

    def walk(count: int, rests: int) -> list[Tensor]:
        parameters = weights(count, 4, 3)
        optimizer = cl.CoLA(parameters, constraint=constraint, **options)
        moving = [p for i, p in enumerate(parameters) if i != rests]
        diffuse(optimizer, [parameters, moving, moving, parameters])
        return [p.detach() for p in parameters]

    alone, three, rested = walk(1, rests=-1), walk(3, rests=-1), walk(3, rests=1)
    torch.testing.assert_close(alone[0], three[0], rtol=0, atol=1e-12)
    torch.testing.assert_close(rested[0], three[0], rtol=0, atol=1e-12)
    torch.testing.assert_close(rested[2], three[2], rtol=0, atol=1e-12)
    assert not (three[0] == three[2]).any()  # and no two of them are the same


@pytest.mark.parametrize("stop", [0, 1, 3])
def test_numbers_go_on_after_a_resume_into_another_seed(stop: int) -> None:
    def make(model: nn.Module, seed: int) -> cl.CoLA:
        groups = constrained(model, cl.Sphere(0.7))
        return cl.CoLA(groups, lr=0.02, momentum=0.8, temperature=0.01, seed=seed)

    model, other = network(), network(seed=9)
    optimizer = make(model, 5)
    train(model, optimizer, range(stop))
    saved = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
    train(model, optimizer, range(stop, 6))
    second = make(other, 6)
    other.load_state_dict(saved[0])
    second.load_state_dict(saved[1])
    train(other, second, range(stop, 6))
    assert same(values_of(second), values_of(optimizer))


# --- copies of one network --------------------------------------------------------------------


def twins(temperature: float) -> list[cl.CoLA]:
    """Two optimizers of copies of a network, made at one state of torch's generator."""
    model, made = network(), []
    for _ in range(2):
        torch.manual_seed(2718)
        twin = copy.deepcopy(model)
        made.append(cl.CoLA(twin.parameters(), lr=0.1, temperature=temperature))
    return made


def test_two_chains_of_one_noise_are_warned_of() -> None:
    with pytest.warns(UserWarning, match="seed="):
        pair = twins(temperature=0.1)
    del pair


def test_two_cold_runs_are_not_warned_of() -> None:
    gc.collect()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pair = twins(temperature=0.0)
    del pair


def test_a_chain_after_another_is_not_warned_of() -> None:
    """Only what lives at the same time can be taken for two chains."""
    model = network()
    for _ in range(2):
        gc.collect()
        torch.manual_seed(3141)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            optimizer = cl.CoLA(copy.deepcopy(model).parameters(), lr=0.1, temperature=0.1)
        del optimizer


def test_chains_of_different_seeds_differ_without_a_warning() -> None:
    gc.collect()
    model = network()
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pairs = [(copy.deepcopy(model), seed) for seed in (1, 2)]
        chains = [
            cl.CoLA(twin.parameters(), lr=0.1, temperature=0.1, seed=seed) for twin, seed in pairs
        ]
    for (twin, _), chain in zip(pairs, chains, strict=True):
        train(twin, chain, range(1))
        found.append(values_of(chain))
    assert not any(bool((a == b).any()) for a, b in zip(*found, strict=True))


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_rows_of_one_weight_have_as_many_slacks(momentum: float) -> None:
    model = torch.nn.Linear(1, 4)
    groups = cl.parameter_groups(model, {"weight": cl.Sphere()})
    optimizer = cl.CoLA(groups, lr=0.01, momentum=momentum, temperature=0.1, seed=1)
    for _ in range(3):
        model(torch.ones(1, 1)).sum().backward()
        optimizer.step()
    assert optimizer.violation()[0].residual < 1e-6
