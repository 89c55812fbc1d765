"""Subclasses and geometries of the user's run as they are written, or are refused with a reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

import colangevin as cl
from geometries import HalfSpeed, users_own

OWN: dict[str, Callable[[], cl.Constraint]] = {
    "half speed": lambda: HalfSpeed(0.5),
    "own circle": lambda: users_own(cl.Circle(0.5)),
    "own sphere": lambda: users_own(cl.Sphere(1.0)),
    "own orthogonal": lambda: users_own(cl.Orthogonal()),
}
SEEDS = [3, 4]
every_own = pytest.mark.parametrize("own", OWN)
OPTIONS: dict[str, Any] = {"lr": 0.1, "momentum": 0.9}


def factory() -> nn.Module:
    return nn.Linear(4, 3, bias=False)


def inputs() -> torch.Tensor:
    return torch.randn(10, 4, generator=torch.Generator().manual_seed(7))


def targets() -> torch.Tensor:
    return 5.0 * inputs()[:, :3]


def alone(seed: int, constraint: cl.Constraint, **options: Any) -> torch.Tensor:
    """Five steps with CoLA."""
    torch.manual_seed(seed)
    model = factory()
    optimizer = cl.CoLA([model.weight], constraint=constraint, **OPTIONS, **options)
    for _ in range(5):
        optimizer.zero_grad()
        functional.mse_loss(model(inputs()), targets()).backward()
        optimizer.step()
    return model.weight.detach()


def test_the_subclass_differs_from_its_base() -> None:
    gap = alone(3, HalfSpeed(0.5), fused=False) - alone(3, cl.Circle(0.5), fused=False)
    assert gap.abs().max() > 1e-2


@every_own
@pytest.mark.parametrize("fused", [None, True])
def test_fused_or_not_it_is_the_same(own: str, fused: bool | None) -> None:
    expected = alone(3, OWN[own](), fused=False)
    try:
        found = alone(3, OWN[own](), fused=fused)
    except RuntimeError as refusal:
        assert fused and "fused" in str(refusal)
        return
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)


@every_own
def test_in_an_ensemble_it_is_the_same_or_refused(own: str) -> None:
    constraint = OWN[own]()
    try:
        ensemble = cl.Ensemble(factory, SEEDS, {"weight": constraint}, compile=False, **OPTIONS)
        for _ in range(5):
            ensemble.step(
                functional.mse_loss, inputs().expand(2, -1, -1), targets().expand(2, -1, -1)
            )
    except (cl.ConstraintError, TypeError) as refusal:
        assert type(constraint).__name__ in str(refusal)
        return
    for index, seed in enumerate(SEEDS):
        expected = alone(seed, OWN[own](), fused=False)
        torch.testing.assert_close(
            ensemble.member(index).weight.detach(), expected, rtol=0, atol=1e-5
        )
