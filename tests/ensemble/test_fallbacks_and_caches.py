"""What an ensemble tells of its projections, and what it keeps of the losses it was given."""

from __future__ import annotations

import gc
import math
import warnings
import weakref
from typing import Any

import torch
from torch import Tensor, nn

import colangevin as cl

SEEDS = [1, 2, 3]


def made(lr: float, compile: bool | None = False) -> cl.Ensemble:
    rules = {"weight": cl.Orthogonal()}
    options: dict[str, Any] = {"lr": lr, "momentum": 0.5, "compile": compile}
    return cl.Ensemble(lambda: nn.Linear(4, 3, bias=False), SEEDS, rules, **options)


def data() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(3, 6, 4, generator=generator), torch.randn(3, 6, 3, generator=generator)


def mse(outputs: Tensor, targets: Tensor) -> Tensor:
    return (outputs - targets).square().mean()


def test_members_that_fall_back_are_counted_and_warned_of_once() -> None:
    ensemble = made(lr=100.0)
    assert ensemble.fallbacks == 0
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(3):
            ensemble.step(mse, *data())
    assert isinstance(ensemble.fallbacks, int)
    assert 0 < ensemble.fallbacks <= 9
    assert sum(issubclass(w.category, cl.ProjectionWarning) for w in caught) == 1
    (found,) = ensemble.violation()
    assert len(found.members) == 3
    assert found.residual < 1e-5 and found.fallbacks == ensemble.fallbacks


def test_short_steps_do_not_fall_back() -> None:
    ensemble = made(lr=0.01)
    with warnings.catch_warnings():
        warnings.simplefilter("error", cl.ProjectionWarning)
        ensemble.step(mse, *data())
    assert ensemble.fallbacks == 0


def test_losses_are_let_go() -> None:
    """A lambda written in the call is another function every time."""
    ensemble = made(lr=0.01)
    alive = []
    for _ in range(20):

        def loss(outputs: Tensor, targets: Tensor) -> Tensor:
            return (outputs - targets).square().mean()

        alive.append(weakref.ref(loss))
        ensemble.step(loss, *data())
        del loss
    gc.collect()
    assert sum(reference() is not None for reference in alive) <= 4


def test_violation_of_members_that_are_nan_is_nan() -> None:
    ensemble = cl.Ensemble(
        lambda: nn.Linear(2, 2), SEEDS, {"weight": cl.Circle(5.0)}, lr=0.1, compile=False
    )
    inputs = torch.ones(3, 1, 2)
    inputs[1] = torch.nan
    ensemble.step(lambda y, t: y.square().sum(), inputs, inputs)
    found = ensemble.violation()[0]
    assert [math.isnan(one) for one in found.members] == [False, True, False]
    assert math.isnan(found.residual)


def test_the_number_of_objects_stays() -> None:
    ensemble = made(lr=0.01)

    def run(count: int) -> int:
        for _ in range(count):
            ensemble.step(lambda y, t: (y - t).square().mean(), *data())
        gc.collect()
        return len(gc.get_objects())

    run(5)
    before = run(5)
    assert run(30) - before < 30
