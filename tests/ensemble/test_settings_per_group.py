"""Ensembles of any method: ``Ensemble(factory, seeds, method=f)``, with f an optimizer's maker.

``f(model)`` returns an optimizer for a member's module, and every member follows that optimizer,
made with the member's seed.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

import colangevin as cl
from optimizer_cases import batch, constrained, network
from optimizers_registry import halves

SEEDS = [3, 5, 8]
STEPS = 20
TOLERANCE = 1e-10


def of_sgd(model: nn.Module, **_: Any) -> Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.8, weight_decay=0.01)


def of_cola(model: nn.Module, **seed: Any) -> Optimizer:
    """Another step, temperature and scheme in each group."""
    groups = [
        {"params": [model[0].weight], "constraint": cl.Circle(0.6), "lr": 0.02},
        {"params": [model[2].weight], "constraint": cl.Orthogonal(), "temperature": 1e-2},
        {"params": [model[0].bias, model[2].bias], "scheme": "BAOAB", "momentum": 0.5},
        {"params": [model[4].weight, model[4].bias], "momentum": 0.0, "weight_decay": 0.1},
    ]
    return cl.CoLA(groups, lr=0.05, momentum=0.8, temperature=1e-3, **seed)


def preset(kind: Callable[..., Optimizer], **options: Any) -> Callable[..., Optimizer]:
    return lambda model, **seed: kind(halves(model), step_size=0.1, **options, **seed)


METHODS: dict[str, Callable[..., Optimizer]] = {
    "CoLA": of_cola,
    "CoLA of two": lambda model, **seed: cl.CoLA(
        constrained(model, cl.Sphere(0.7)), lr=0.02, momentum=0.8, temperature=1e-3, **seed
    ),
    "SGLD": preset(cl.SGLD, temperature=1e-3),
    "SGLD with decay": preset(cl.SGLD, temperature=1e-3, decay_power=0.5, decay_steps=5.0),
    "Langevin": preset(cl.Langevin, friction=2.0, temperature=1e-3),
    "LangevinInLayers": preset(
        cl.LangevinInLayers,
        friction={"hidden": 0.5, "output": 5.0},
        temperature={"hidden": 1e-3, "output": 1e-2},
    ),
    "LOL": preset(cl.LOL, temperature=1e-3, overdamped_temperature=1e-4),
    "DHSGD": preset(cl.DHSGD),
    "DHSGD contractive": preset(cl.DHSGD, contractive=True),
    "AdaptiveLangevin": preset(cl.AdaptiveLangevin, temperature=1e-3),
    "AdLaLa": preset(cl.AdLaLa, temperature=1e-3),
    "SGD": of_sgd,
}
every_method = pytest.mark.parametrize("name", METHODS)


def loss(outputs: Tensor, targets: Tensor) -> Tensor:
    return (outputs - targets).square().mean()


def made(name: str, seeds: list[int] = SEEDS, **options: Any) -> cl.Ensemble:
    return cl.Ensemble(
        lambda seed: network(seed),
        seeds,
        method=lambda model: METHODS[name](model),
        **{"compile": False, **options},
    )


def train(ensemble: cl.Ensemble, steps: range) -> None:
    for step in steps:
        pairs = [batch(100 * seed + step) for seed in ensemble.seeds]
        inputs, targets = (torch.stack(tensors) for tensors in zip(*pairs, strict=True))
        ensemble.step(loss, inputs, targets)


def alone(name: str, seed: int) -> nn.Module:
    model = network(seed)
    optimizer = METHODS[name](model, seed=seed)
    for step in range(STEPS):
        inputs, targets = batch(100 * seed + step)
        optimizer.zero_grad()
        loss(model(inputs), targets).backward()
        optimizer.step()
    return model


def assert_same(found: nn.Module, expected: nn.Module) -> None:
    pairs = zip(found.parameters(), expected.parameters(), strict=True)
    for one, other in pairs:
        torch.testing.assert_close(one.detach(), other.detach(), rtol=0, atol=TOLERANCE)


@every_method
def test_every_member_follows_its_optimizer(name: str) -> None:
    ensemble = made(name)
    train(ensemble, range(STEPS))
    for index, seed in enumerate(SEEDS):
        assert_same(ensemble.member(index), alone(name, seed))


@every_method
def test_a_member_does_not_mind_the_others(name: str) -> None:
    many, one = made(name), made(name, [SEEDS[1]])
    for ensemble in (many, one):
        train(ensemble, range(5))
    assert_same(many.member(1), one.member(0))


@every_method
def test_a_resumed_ensemble_goes_on_exactly(name: str) -> None:
    whole = made(name)
    train(whole, range(3))
    saved = copy.deepcopy(whole.state_dict())
    train(whole, range(3, 6))
    second = made(name)
    second.load_state_dict(saved)
    train(second, range(3, 6))
    for index in range(len(SEEDS)):
        assert_same(second.member(index), whole.member(index))


def test_what_is_no_optimizer_is_refused() -> None:
    made("SGD")
    with pytest.raises(TypeError, match="method"):
        cl.Ensemble(network, SEEDS, method=lambda model: 3)


def scaled(factor: float) -> Any:
    class Scaled:
        def __init__(self) -> None:
            self.factor = factor

        def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
            return self.factor * loss(outputs, targets)

    return Scaled().loss


def test_losses_of_other_objects_are_other_losses() -> None:
    ensemble = cl.Ensemble(lambda: nn.Linear(2, 1), SEEDS, lr=1e-12)
    inputs, targets = torch.randn(3, 5, 2), torch.randn(3, 5, 1)
    found = []
    for factor in (1.0, 100.0):

        def weighted(y: Tensor, t: Tensor, *, by: float = factor) -> Tensor:
            return by * loss(y, t)

        for function in (scaled(factor), weighted):
            found.append(ensemble.step(function, inputs, targets))
    torch.testing.assert_close(found[0], found[1])
    torch.testing.assert_close(found[2], 100.0 * found[0])
    torch.testing.assert_close(found[3], found[2])


def test_what_is_not_named_stays_as_the_method_made_it() -> None:
    ensemble = cl.Ensemble(
        lambda: nn.Linear(2, 1),
        SEEDS,
        method=lambda model: cl.CoLA(model.parameters(), lr=0.1, momentum=0.9),
    )
    saved = ensemble.state_dict()
    ensemble.set(temperature=0.5)
    ensemble.set(lr=0.05)
    group = ensemble._groups[0].options[1]
    assert (group["lr"], group["momentum"], group["temperature"]) == (0.05, 0.9, 0.5)
    ensemble.load_state_dict(saved)
    assert (group["lr"], group["momentum"], group["temperature"]) == (0.1, 0.9, 0.0)
