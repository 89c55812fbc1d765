"""Turns of any size, and what a gradient that is not finite leads to."""

from __future__ import annotations

import math
import warnings

import pytest
import torch
from torch import nn

import colangevin as cl

every_route = pytest.mark.parametrize("fused", [None, False], ids=["kernel", "formulas"])
every_dtype = pytest.mark.parametrize("dtype", [torch.float32, torch.float64])


@every_route
@every_dtype
def test_one_kick_turns_a_weight_by_any_angle(dtype: torch.dtype, fused: bool | None) -> None:
    """In float32 the rotation was off by 1.5 % of the radius at 3 rad and by half of it at 6."""
    angle, lr = torch.linspace(-30.0, 30.0, 4801, dtype=dtype), 0.01
    weight = nn.Parameter(torch.zeros_like(angle))
    optimizer = cl.CoLA([weight], lr=lr, momentum=0.9, constraint=cl.Circle(1.0), fused=fused)
    weight.grad = -angle / lr
    optimizer.step()
    exact = torch.sin(-lr * weight.grad.double())
    error = (weight.detach().double() - exact).abs() / (1.0 + angle.double().abs())
    assert float(error.max()) < (1.5e-7 if dtype == torch.float32 else 1e-15)


@every_route
def test_float32_stays_near_float64(fused: bool | None) -> None:
    """1,000 steps; half of the weights are pressed against their bound."""
    radius, found = 0.3, []
    for dtype in (torch.float32, torch.float64):
        generator = torch.Generator().manual_seed(3)
        draw = torch.rand(2, 1000, generator=generator, dtype=torch.float64) * 2.0 - 1.0
        weight = nn.Parameter((0.9 * radius * draw[0]).to(dtype))
        goal = (2.0 * radius * draw[1]).to(dtype)
        constraint = cl.Circle(radius)
        optimizer = cl.CoLA([weight], lr=0.01, momentum=0.9, constraint=constraint, fused=fused)
        for _ in range(1000):
            weight.grad = weight.detach() - goal
            optimizer.step()
        found.append(weight.detach().double())
    error = (found[0] - found[1]).abs() / radius
    assert float(error.quantile(0.99)) <= 1e-5
    assert float(found[0].abs().max()) <= radius


@every_dtype
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_what_is_written_to_data_is_the_same_in_both_routes(dtype, momentum) -> None:
    """torch does not record it: it was 0.1005 by the kernel and 0.145 by the formulas."""
    found = []
    for fused in (None, False):
        weight = nn.Parameter(torch.tensor([0.45, -0.2, 0.3], dtype=dtype))
        constraint = cl.Circle(0.5)
        optimizer = cl.CoLA(
            [weight], lr=0.01, momentum=momentum, constraint=constraint, fused=fused
        )
        for step in range(6):
            if step == 3:
                weight.data[:2] = 0.1
            weight.grad = torch.full((3,), 0.05, dtype=dtype)
            optimizer.step()
        found.append(weight.detach())
    tolerance = 1e-6 if dtype == torch.float32 else 1e-13
    torch.testing.assert_close(found[0], found[1], rtol=0.0, atol=tolerance)
    if momentum:  # the angle is what counts
        assert float(found[0][0]) > 0.44 and float(found[0][1]) < -0.19


@every_route
@every_dtype
@pytest.mark.parametrize("bad", [math.inf, -math.inf, math.nan])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("constraint", [None, cl.Circle(0.9)], ids=["free", "circle"])
def test_kernel_and_formulas_answer_alike(constraint, momentum, bad, dtype, fused) -> None:
    """A weight whose gradient was not finite is NaN or infinite, as with SGD; others are not."""
    weight = nn.Parameter(torch.full((2,), 0.3, dtype=dtype))
    optimizer = cl.CoLA([weight], lr=0.01, momentum=momentum, constraint=constraint, fused=fused)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for step in range(6):
            weight.grad = torch.full((2,), 0.5, dtype=dtype)
            if step == 3:
                weight.grad[0] = bad
            optimizer.step()
    assert weight.isfinite().tolist() == [False, True]


@every_route
def test_weights_that_became_nan_are_said_once_by_name(fused: bool | None) -> None:
    model = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 1))
    groups = cl.parameter_groups(model, {"0.weight": cl.Circle(2.0)})
    optimizer = cl.CoLA(groups, lr=0.1, momentum=0.9, fused=fused)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for step in range(200):
            optimizer.zero_grad()
            model(torch.ones(4, 3)).square().mean().backward()
            if step == 70:
                model[1].bias.grad.fill_(math.nan)
            optimizer.step()
    said = [str(one.message) for one in caught]
    assert len(said) == 1 and "weights that are not finite" in said[0]
    assert said[0].startswith(("0.weight", "0.bias", "1.weight", "1.bias"))
    assert caught[0].filename == __file__


@every_route
@pytest.mark.parametrize("after", [0, 5])
@pytest.mark.parametrize("bad", [math.inf, math.nan])
def test_strict_refuses_a_gradient_that_is_not_finite(bad, after, fused) -> None:
    model = nn.Linear(3, 2)
    groups = cl.parameter_groups(model, {"weight": cl.Circle(2.0)})
    optimizer = cl.CoLA(groups, lr=0.1, momentum=0.9, fused=fused, strict=True)
    for _ in range(after):
        optimizer.zero_grad()
        model(torch.ones(4, 3)).square().mean().backward()
        optimizer.step()
    before = [parameter.detach().clone() for parameter in model.parameters()]
    model(torch.ones(4, 3)).square().mean().backward()
    model.bias.grad[1] = bad
    with pytest.raises(ValueError, match="bias has a gradient that is not finite"):
        optimizer.step()
    for parameter, old in zip(model.parameters(), before, strict=True):
        assert torch.equal(parameter, old)


def test_frozen_weights_may_be_anything() -> None:
    """A mask of −∞, or numbers of another kind, are no sign of a bad gradient."""
    weight = nn.Parameter(torch.ones(2))
    mask = nn.Parameter(torch.full((3,), -math.inf), requires_grad=False)
    optimizer = cl.CoLA([weight, mask], lr=0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(4):
            weight.grad = torch.ones(2)
            optimizer.step()


def test_large_weights_are_finite() -> None:
    """A sum may overflow where no term is infinite."""
    weight = nn.Parameter(torch.full((8,), 2e38))
    optimizer = cl.CoLA([weight], lr=0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        weight.grad = torch.ones(8)
        optimizer.step()
