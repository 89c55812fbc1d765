"""Blocks that lie one below the other in a weight: each is held by itself."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import colangevin as cl
from registry import ellipse

ROWS = {"circle": (4, 3), "sphere": (4, 3), "vector": (4,), "orthogonal": (4, 3), "general": (2,)}
ROWS |= {"box": (4, 3), "simplex": (4, 3)}
MAKE: dict[str, Callable[..., cl.Constraint]] = {
    "circle": lambda **blocks: cl.Circle("initial", factor=0.9, **blocks),
    "sphere": lambda **blocks: cl.Sphere(0.7, dim=1, **blocks),
    "vector": lambda **blocks: cl.Sphere(1.0, equality=True, **blocks),
    "orthogonal": lambda **blocks: cl.Orthogonal(**blocks),
    "general": lambda **blocks: cl.General(ellipse, **blocks),
    "box": lambda **blocks: cl.Box(-0.4, 0.6, **blocks),
    "simplex": lambda **blocks: cl.Simplex(dim=0, **blocks),
}
SETTINGS: dict[str, Any] = {"lr": 0.01, "momentum": 0.9}


def weight(kind: str, seed: int = 0) -> Tensor:
    """Three blocks."""
    rows, *others = ROWS[kind]
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(3 * rows, *others, generator=generator, dtype=torch.float64)


def push(weights: list[nn.Parameter], slope: Tensor) -> None:
    """Give the weights the parts of a gradient that depends on them."""
    size = len(weights[0])
    for index, each in enumerate(weights):
        each.grad = each.detach() * 0.3 + slope[index * size :][:size]


@pytest.mark.parametrize("fused", [False, None])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("kind", MAKE)
def test_blocks_move_as_parameters_of_their_own(
    kind: str, momentum: float, fused: bool | None
) -> None:
    """Without noise, which goes by the place in the parameter."""
    whole = nn.Parameter(weight(kind))
    parts = [nn.Parameter(part.clone()) for part in whole.detach().chunk(3)]
    options = {**SETTINGS, "momentum": momentum, "fused": fused}
    one = cl.CoLA([whole], constraint=MAKE[kind](blocks=3), **options)
    three = cl.CoLA(parts, constraint=MAKE[kind](), **options)
    assert not torch.equal(whole, weight(kind)), "the test should begin with a placement"
    for step in range(5):
        push([whole], weight(kind, step + 1))
        push(parts, weight(kind, step + 1))
        one.step()
        three.step()
    torch.testing.assert_close(whole, torch.cat(parts), rtol=0.0, atol=1e-13)
    assert one.violation()[0].residual < 1e-12


@pytest.mark.parametrize("kind", MAKE)
def test_state_dicts_resume_exactly_and_know_the_blocks(kind: str) -> None:
    def run(parameter: nn.Parameter, optimizer: cl.CoLA, steps: range) -> None:
        for step in steps:
            push([parameter], weight(kind, step + 1))
            optimizer.step()

    options = {**SETTINGS, "temperature": 1e-3, "seed": 3}
    first = nn.Parameter(weight(kind))
    optimizer = cl.CoLA([first], constraint=MAKE[kind](blocks=3), **options)
    run(first, optimizer, range(3))
    file = io.BytesIO()
    torch.save(optimizer.state_dict(), file)
    file.seek(0)
    second = nn.Parameter(first.detach().clone())
    resumed = cl.CoLA([second], constraint=MAKE[kind](blocks=3), **options)
    second.data.copy_(first.data)  # making an optimizer may move weights
    resumed.load_state_dict(torch.load(file, weights_only=True))
    run(first, optimizer, range(3, 6))
    run(second, resumed, range(3, 6))
    assert torch.equal(first, second)
    if kind != "vector":
        other = cl.CoLA([nn.Parameter(weight(kind)[: 2 * len(weight(kind)) // 3])], **options)
        other.param_groups[0]["constraint"] = MAKE[kind](blocks=2)
        with pytest.raises(ValueError, match="blocks"):
            other.load_state_dict(optimizer.state_dict())


@pytest.mark.parametrize("kind", ["circle", "sphere", "orthogonal", "box", "simplex"])
def test_members_of_an_ensemble_follow_an_optimizer(kind: str) -> None:
    rows, columns = ROWS[kind]

    def make() -> nn.Module:
        return nn.Linear(columns, 3 * rows, bias=False).double()

    def loss(outputs: Tensor, targets: Tensor) -> Tensor:
        return (outputs - targets).square().mean()

    rules = {"weight": MAKE[kind](blocks=3)}
    options = {**SETTINGS, "temperature": 1e-3}
    ensemble = cl.Ensemble(make, [3, 4], rules, compile=False, **options)
    torch.manual_seed(4)
    alone = make()
    optimizer = cl.CoLA(cl.parameter_groups(alone, rules), seed=4, **options)
    inputs, targets = weight(kind), weight(kind, 1) @ torch.ones(columns, 3 * rows).double()
    for _ in range(4):
        ensemble.step(loss, inputs.expand(2, -1, -1), targets.expand(2, -1, -1))
        optimizer.zero_grad()
        loss(alone(inputs), targets).backward()
        optimizer.step()
    torch.testing.assert_close(ensemble.member(1).weight, alone.weight, rtol=0.0, atol=1e-12)


def test_modules_of_torch_with_stacked_weights() -> None:
    torch.manual_seed(0)
    attention = nn.MultiheadAttention(6, 2)
    lstm = nn.LSTM(3, 4)
    cl.constrain_(attention, {"in_proj_weight": cl.Orthogonal(blocks=3)})
    cl.constrain_(lstm, {"weight_hh_l0": cl.Orthogonal(blocks=4, scale=0.5)})
    for block in attention.in_proj_weight.detach().chunk(3):
        torch.testing.assert_close(block.T @ block, torch.eye(6), rtol=0.0, atol=1e-5)
    for block in lstm.weight_hh_l0.detach().chunk(4):
        torch.testing.assert_close(block.T @ block, 0.25 * torch.eye(4), rtol=0.0, atol=1e-5)


def test_a_circle_counts_each_block_by_itself() -> None:
    parameter = nn.Parameter(torch.tensor([[0.3], [-0.2], [4.0], [1.0]]))
    optimizer = cl.CoLA([parameter], constraint=cl.Circle(0.5, blocks=2), **SETTINGS)
    torch.testing.assert_close(
        parameter.detach().flatten(), torch.tensor([0.3, -0.2, 0.45, 0.1125])
    )
    own = nn.Parameter(torch.tensor([[0.3], [-0.2], [4.0], [1.0]]))
    optimizer = cl.CoLA([own], constraint=cl.Circle("initial", blocks=2), **SETTINGS)
    assert optimizer.state[own]["radius"].tolist() == pytest.approx([0.6, 8.0])
    for _ in range(50):
        own.grad = torch.full_like(own, 10.0)
        optimizer.step()
        assert bool((own.detach().abs().flatten() <= torch.tensor([0.6, 0.6, 8.0, 8.0])).all())


def test_a_radius_for_each_block_of_columns() -> None:
    sphere = cl.Sphere(torch.tensor([[1.0], [2.0]]), equality=True, dim=1, blocks=2)
    layer = nn.Linear(3, 6)
    cl.constrain_(layer, {"weight": sphere})
    found = layer.weight.detach().unflatten(0, (2, 3)).norm(dim=1)
    torch.testing.assert_close(found, torch.tensor([[1.0] * 3, [2.0] * 3]))


@pytest.mark.parametrize(
    ("constraint", "shape", "message"),
    [
        (cl.Orthogonal(blocks=3), (8, 4), "blocks=3 must divide the number of rows"),
        (cl.Circle(1.0, blocks=3), (8, 4), r"got shape \(8, 4\)"),
        (cl.Circle("initial", blocks=3), (8, 4), "blocks=3 must divide"),
        (cl.Sphere(1.0, blocks=3), (8, 4), "blocks=3 must divide"),
        (cl.General(ellipse, blocks=3), (8,), "blocks=3 must divide"),
        (cl.Orthogonal(batch_dims=1, blocks=2), (2, 3, 3), "blocks=2 must divide"),
        (cl.Sphere(1.0, dim=1, blocks=2), (4, 3, 2), "divides the columns of matrices"),
        (cl.Sphere(1.0, equality=True, blocks=4), (4,), "rows of length 1"),
        (cl.Circle(torch.ones(2, 1, 1), blocks=3), (6, 4), "does not broadcast"),
        (cl.Sphere(torch.ones(5, 1), dim=1, blocks=3), (6, 4), "does not broadcast"),
    ],
)
def test_a_weight_that_cannot_be_divided_is_refused(
    constraint: cl.Constraint, shape: tuple[int, ...], message: str
) -> None:
    parameter = nn.Parameter(torch.rand(shape) + 0.1)
    before = parameter.detach().clone()
    with pytest.raises(cl.ConstraintError, match=message):
        cl.CoLA([parameter], constraint=constraint, **SETTINGS)
    assert torch.equal(parameter, before)


@pytest.mark.parametrize(("value", "error"), [(0, ValueError), (-1, ValueError), (1.5, TypeError)])
@pytest.mark.parametrize("kind", MAKE)
def test_a_wrong_number_of_blocks_is_refused(kind: str, value: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="blocks"):
        MAKE[kind](blocks=value)
