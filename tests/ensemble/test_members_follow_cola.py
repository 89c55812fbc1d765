"""A member of an ensemble is CoLA with the member's seed, its noise included."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import colangevin as cl
from optimizer_cases import CONSTRAINTS, SCHEMES, batch, network

SEEDS = [3, 8]
STEPS = 6
TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-5}
every_constraint = pytest.mark.parametrize("constraint", CONSTRAINTS)
every_scheme = pytest.mark.parametrize("scheme", ["overdamped", "OBA", "BAOAB"])


def loss(outputs: Tensor, targets: Tensor) -> Tensor:
    return (outputs - targets).square().mean()


def alone(model: nn.Module, optimizer: torch.optim.Optimizer, index: int) -> nn.Module:
    """Train a module as an ordinary loop does, on the batches of a member."""
    dtype = next(model.parameters()).dtype
    for step in range(STEPS):
        inputs, targets = batch(100 * index + step, dtype)
        optimizer.zero_grad()
        loss(model(inputs), targets).backward()
        optimizer.step()
    return model


def together(ensemble: cl.Ensemble, dtype: torch.dtype) -> None:
    """The same steps for all members at once."""
    for step in range(STEPS):
        pairs = [batch(100 * index + step, dtype) for index in range(len(ensemble))]
        inputs, targets = (torch.stack(tensors) for tensors in zip(*pairs, strict=True))
        ensemble.step(loss, inputs, targets)


def assert_same(found: nn.Module, expected: nn.Module) -> None:
    for name, parameter in expected.named_parameters():
        tolerance = TOLERANCE[parameter.dtype]
        own = found.get_parameter(name).detach()
        scale = float(parameter.detach().abs().max())
        torch.testing.assert_close(own, parameter.detach(), rtol=0, atol=tolerance * scale)


def compare(
    constraint: str, options: dict[str, Any], dtype: torch.dtype, compile: bool = False
) -> None:
    rules = {("0.weight", "2.weight"): CONSTRAINTS[constraint]()}
    ensemble = cl.Ensemble(
        lambda seed: network(seed, dtype), SEEDS, rules, compile=compile, **options
    )
    together(ensemble, dtype)
    for index, seed in enumerate(SEEDS):
        model = network(seed, dtype)
        start = [p.detach().clone() for p in model.parameters()]
        own = {k: v[index] if isinstance(v, list) else v for k, v in options.items()}
        optimizer = cl.CoLA(cl.parameter_groups(model, rules), seed=seed, **own)
        assert_same(ensemble.member(index), alone(model, optimizer, index))
        assert all(
            (p - q).abs().max() > 1e-3 for p, q in zip(model.parameters(), start, strict=True)
        )


@pytest.mark.parametrize("dtype", TOLERANCE)
@every_scheme
@every_constraint
def test_a_warm_member_follows_cola(constraint: str, scheme: str, dtype: torch.dtype) -> None:
    compare(constraint, {**SCHEMES[scheme], "temperature": 1e-3, "weight_decay": 0.01}, dtype)


@every_scheme
@every_constraint
def test_members_of_a_sweep_follow_cola(constraint: str, scheme: str) -> None:
    options = {k: [v, 0.8 * v] if isinstance(v, float) else v for k, v in SCHEMES[scheme].items()}
    sweep = {"temperature": [1e-3, 2e-3], "weight_decay": [0.01, 0.02]}
    compare(constraint, {**options, **sweep}, torch.float64)


@pytest.mark.slow
def test_compiled_too() -> None:
    compare("circle", {**SCHEMES["BAOAB"], "temperature": 1e-3}, torch.float64, compile=True)


def test_members_have_different_noise() -> None:
    ensemble = cl.Ensemble(lambda: nn.Linear(50, 1), SEEDS, lr=0.1, temperature=0.1, compile=False)
    before = [ensemble.member(i).weight.detach() for i in range(2)]
    ensemble.step(lambda y, t: 0.0 * y.sum(), torch.zeros(2, 1, 50), torch.zeros(2, 1, 1))
    moved = [ensemble.member(i).weight.detach() - before[i] for i in range(2)]
    assert not (moved[0] == moved[1]).any()
