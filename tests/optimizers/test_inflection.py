"""``radius="inflection"``: weights are free until the growth of their norm slows."""

from __future__ import annotations

import copy
import io
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import colangevin as cl

INTERVAL = 4
RULES: dict[str, cl.Constraint] = {
    "circle": cl.Circle("inflection", interval=INTERVAL),
    "circle of blocks": cl.Circle("inflection", factor=1.5, interval=INTERVAL, blocks=2),
    "max-norm": cl.Sphere("inflection", interval=INTERVAL),
    "unit-norm": cl.Sphere("inflection", interval=INTERVAL, equality=True),
    "norm of the matrix": cl.Sphere("inflection", interval=INTERVAL, dim=None),
}
every_rule = pytest.mark.parametrize("rule", RULES)
every_momentum = pytest.mark.parametrize("momentum", [0.0, 0.8])


def weight_of(seed: int = 0) -> nn.Parameter:
    draw = torch.Generator().manual_seed(seed)
    return nn.Parameter(torch.randn(4, 3, generator=draw).double())


def aim(seed: int = 1) -> Tensor:
    return 5.0 * torch.randn(4, 3, generator=torch.Generator().manual_seed(seed)).double()


def follow(optimizer: torch.optim.Optimizer, weight: nn.Parameter, steps: range) -> None:
    """Towards a far goal, at a speed that falls: the norm grows ever more slowly."""
    for step in steps:
        draw = torch.Generator().manual_seed(step)
        noise = 0.01 * torch.randn(4, 3, generator=draw).double()
        weight.grad = weight.detach() - aim() + noise
        optimizer.step()


def literal(weight: Tensor, lr: float, factor: float, steps: int) -> tuple[int, float]:
    """When the rule of AdamCPR stops the growth along gradients, and the largest weight there."""
    norms: list[float] = []
    for step in range(steps):
        draw = torch.Generator().manual_seed(step)
        noise = 0.01 * torch.randn(4, 3, generator=draw).double()
        weight = weight - lr * (weight - aim() + noise)
        if (step + 1) % INTERVAL == 0:
            norms.append(float(weight.square().sum()))
        if len(norms) >= 3 and norms[-1] - norms[-2] < norms[-2] - norms[-3]:
            return step + 1, factor * float(weight.abs().max())
    return steps, float("inf")


def test_a_radius_is_found_where_the_rule_says_so() -> None:
    weight, free = weight_of(), weight_of()
    steps, radius = literal(weight.detach().clone(), 0.01, 1.5, 400)
    assert 3 * INTERVAL <= steps < 400
    rule = cl.Circle("inflection", factor=1.5, interval=INTERVAL)
    optimizer = cl.CoLA([weight], lr=0.01, constraint=rule)
    plain = torch.optim.SGD([free], lr=0.01)
    follow(optimizer, weight, range(steps - 1))
    follow(plain, free, range(steps - 1))
    torch.testing.assert_close(weight, free)  # free until then
    assert bool(optimizer.state[weight]["radius"].isinf())
    follow(optimizer, weight, range(steps - 1, steps))
    assert float(optimizer.state[weight]["radius"]) == pytest.approx(radius, rel=1e-6)
    follow(optimizer, weight, range(steps, steps + 2000))
    follow(plain, free, range(steps, steps + 2000))
    assert float(free.detach().abs().max()) > radius  # it would have grown more
    assert 0.98 * radius < float(weight.detach().abs().max()) <= radius


@every_rule
@every_momentum
def test_the_bound_holds_from_then_on(rule: str, momentum: float) -> None:
    weight = weight_of()
    optimizer = cl.CoLA([weight], lr=0.01, momentum=momentum, constraint=RULES[rule])
    follow(optimizer, weight, range(200))
    entry = optimizer.state[weight]
    assert bool(entry["radius"].isfinite().all())
    found = optimizer.violation()[0]
    assert found.residual < 1e-10 and found.cotangency < 1e-10
    kept = entry["radius"].clone()
    before = weight.detach().clone()
    follow(optimizer, weight, range(200, 230))
    assert torch.equal(entry["radius"], kept) and not torch.equal(weight, before)
    sizes = weight.detach().norm(dim=1)
    if rule == "unit-norm":
        torch.testing.assert_close(sizes, kept)
    if rule == "max-norm":
        assert float(sizes.max()) <= float(kept) * (1.0 + 1e-10)
    if rule == "norm of the matrix":
        assert float(weight.detach().norm()) <= float(kept) * (1.0 + 1e-10)
    if rule == "circle of blocks":
        assert kept.shape == (2,)
        assert bool((weight.detach().view(2, -1).abs().amax(dim=1) <= kept).all())


def test_a_momentum_goes_on_along_the_manifold() -> None:
    weight = weight_of()
    optimizer = cl.CoLA(
        [weight],
        lr=0.01,
        momentum=0.8,
        constraint=cl.Sphere("inflection", equality=True, interval=INTERVAL, dim=None),
    )
    steps = 0
    while bool(optimizer.state[weight].get("radius", torch.tensor(torch.inf)).isinf().all()):
        before = copy.deepcopy(optimizer.state[weight].get("momentum_buffer"))
        follow(optimizer, weight, range(steps, steps + 1))
        steps += 1
        assert steps < 400
    assert before is not None
    momentum = optimizer.state[weight]["momentum_buffer"]
    along = float((momentum * weight.detach()).sum())
    assert abs(along) < 1e-10 * float(momentum.norm() * weight.detach().norm())
    assert float(momentum.norm()) > 0.1 * float(before.norm())


@every_rule
@every_momentum
@pytest.mark.parametrize("steps", [6, 160])
def test_a_saved_run_goes_on_bit_for_bit(rule: str, momentum: float, steps: int) -> None:
    """Before a radius was found, and after."""
    weight = weight_of()
    options: dict[str, Any] = {"lr": 0.01, "momentum": momentum, "constraint": RULES[rule]}
    optimizer = cl.CoLA([weight], **options)
    follow(optimizer, weight, range(steps))
    assert bool(optimizer.state[weight]["radius"].isfinite().all()) is (steps == 160)
    file = io.BytesIO()
    torch.save((weight.detach(), optimizer.state_dict()), file)
    file.seek(0)
    value, state = torch.load(file, weights_only=True)
    again = nn.Parameter(value)
    other = cl.CoLA([again], **options)
    other.load_state_dict(state)
    follow(optimizer, weight, range(steps, steps + 60))
    follow(other, again, range(steps, steps + 60))
    assert torch.equal(weight, again)


def test_each_parameter_has_a_radius_of_its_own() -> None:
    one, other = weight_of(0), weight_of(2)
    optimizer = cl.CoLA([one, other], lr=0.01, constraint=RULES["circle"])
    for step in range(100):
        draw = torch.Generator().manual_seed(step)
        one.grad = one.detach() - aim() + 0.01 * torch.randn(4, 3, generator=draw).double()
        other.grad = -0.5 * other.detach()  # it grows ever faster
        optimizer.step()
    radii = [optimizer.state[w]["radius"] for w in (one, other)]
    assert bool(radii[0].isfinite()) and bool(radii[1].isinf())


def test_kernels_and_formulas_agree() -> None:
    own = [weight_of(), weight_of()]
    for weight, fused in zip(own, (None, False), strict=True):
        optimizer = cl.CoLA([weight], lr=0.01, fused=fused, constraint=RULES["circle"])
        follow(optimizer, weight, range(100))
    torch.testing.assert_close(own[0], own[1], rtol=0, atol=1e-9)


def test_what_is_wrong_is_named() -> None:
    with pytest.raises(ValueError, match="radius must be one of"):
        cl.Circle("inflexion")
    with pytest.raises(ValueError, match="interval must be"):
        cl.Circle("inflection", interval=0)
    with pytest.raises(ValueError, match="finds its radius at another step in each member"):
        cl.Ensemble(lambda: nn.Linear(2, 2), [1, 2], {"weight": cl.Circle("inflection")}, lr=0.1)
    with pytest.raises(ValueError, match="radius='inflection' has no soft form"):
        cl.penalty(nn.Linear(2, 2), {"weight": cl.Circle("inflection")}, 1.0)
    weight = weight_of()
    optimizer = cl.CoLA([weight], lr=0.01, constraint=RULES["circle"])
    other = cl.CoLA([weight_of()], lr=0.01, constraint=cl.Circle("inflection", interval=5))
    with pytest.raises(ValueError, match="interval"):
        other.load_state_dict(optimizer.state_dict())
