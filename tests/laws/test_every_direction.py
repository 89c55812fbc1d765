"""Every direction under every geometry: one path, however it is computed, and on the manifold.

The same paths in two processes are in ``integrations/distributed/test_every_direction.py``.
"""

from __future__ import annotations

import io
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import colangevin as cl
from along import (
    NAMED,
    PAIRS,
    REFUSED,
    SAVED,
    STEPS,
    Weights,
    expected,
    follow,
    optimizer_of,
    refusal,
)

every_pair = pytest.mark.parametrize(("name", "direction"), PAIRS)
CLOSE = 1e-9
"""Newton–Schulz and the polar factor on orthogonal weights enlarge rounding."""


def assert_same(found: nn.Module, wanted: list[Tensor]) -> None:
    for one, other in zip(found.parameters(), wanted, strict=True):
        torch.testing.assert_close(one.detach(), other, rtol=0, atol=CLOSE)


WAYS: dict[str, dict[str, Any]] = {
    "overdamped": {},
    "momentum": {"momentum": 0.8, "weight_decay": 0.1, "decoupled_weight_decay": 0.0},
}


@every_pair
@pytest.mark.parametrize("way", WAYS)
def test_kernels_and_formulas_go_one_way_on_the_manifold(
    name: str, direction: str, way: str
) -> None:
    start, found = Weights(name), expected(name, direction, **WAYS[way])
    assert float(NAMED[name].violated(*found)) < CLOSE
    assert all(bool((one != other).any()) for one, other in zip(start.own, found, strict=True))
    optimizer = optimizer_of(start, name, direction, **WAYS[way])
    follow(list(start.own), optimizer, name, range(STEPS))
    assert_same(start, found)


@every_pair
def test_a_saved_run_goes_on_bit_for_bit(name: str, direction: str) -> None:
    whole, again = Weights(name), Weights(name, seed=5)
    optimizer = optimizer_of(whole, name, direction)
    follow(list(whole.own), optimizer, name, range(SAVED))
    file = io.BytesIO()
    torch.save((whole.state_dict(), optimizer.state_dict()), file)
    file.seek(0)
    weights, state = torch.load(file, weights_only=True)
    again.load_state_dict(weights)
    other = optimizer_of(again, name, direction, lr=0.5)
    other.load_state_dict(state)
    again.load_state_dict(weights)  # making an optimizer may move weights by rounding
    follow(list(whole.own), optimizer, name, range(SAVED, STEPS))
    follow(list(again.own), other, name, range(SAVED, STEPS))
    assert all(map(torch.equal, whole.parameters(), again.parameters()))


@every_pair
def test_members_of_an_ensemble_are_cola(name: str, direction: str) -> None:
    ensemble = cl.Ensemble(
        lambda seed: Weights(name, seed),
        [1, 2],
        method=lambda model: optimizer_of(model, name, direction),
        compile=False,
    )
    total = sum(weight.numel() for weight in Weights(name).own)
    inputs, targets = torch.zeros(total).double(), torch.zeros(total).double()

    def loss(outputs: Tensor, targets: Tensor) -> Tensor:
        return (outputs - targets).square().sum() / 2

    for _ in range(STEPS):
        ensemble.step(loss, inputs, targets, shared=True)
    for index, seed in enumerate((1, 2)):
        model = Weights(name, seed)
        optimizer = optimizer_of(model, name, direction)
        for _ in range(STEPS):
            optimizer.zero_grad()
            loss(model(inputs), targets).backward()
            optimizer.step()
        assert_same(ensemble.member(index), [weight.detach() for weight in model.own])


@every_pair
def test_slow_weights_of_multirate_stay_on_the_manifold(name: str, direction: str) -> None:
    """A gradient is used once, in stretches; free weights end where one step leads."""
    parts, whole = Weights(name), Weights(name)
    slow = optimizer_of(parts, name, direction)
    fast = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.1)
    multirate = cl.Multirate(fast, slow, period=4)
    for _ in range(4):
        for weight in parts.own:
            weight.grad = weight.detach() - 1.0
        multirate.step()
    assert float(NAMED[name].violated(*[weight.detach() for weight in parts.own])) < CLOSE
    assert all(map(torch.ne, parts.own[0].flatten(), whole.own[0].flatten()))


@every_pair
def test_bfloat16_rounded_at_random(name: str, direction: str) -> None:
    """Without a copy in float32, and on the manifold as far as 8 bits tell."""
    model = Weights(name).bfloat16()
    optimizer = optimizer_of(model, name, direction, rounding="stochastic", seed=1)
    follow(list(model.own), optimizer, name, range(STEPS))
    found = optimizer.violation()[0]
    assert found.residual < 0.03
    assert all("master" not in optimizer.state[weight] for weight in model.own)


@pytest.mark.parametrize(("name", "direction"), REFUSED)
def test_what_has_no_place_is_refused(name: str, direction: str) -> None:
    model = Weights(name)
    with pytest.raises((TypeError, ValueError), match=refusal(NAMED[name], direction)):
        optimizer = optimizer_of(model, name, direction)
        follow(list(model.own), optimizer, name, range(1))
    before = NAMED[name].weights()
    assert all(map(torch.equal, [weight.detach() for weight in model.own], before))
