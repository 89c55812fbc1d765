"""Runs by the C kernels, with noise."""

import io

import pytest
import torch
from torch import Tensor

import colangevin as cl
from colangevin.native import load
from colangevin.random import key_of, normals

SIZE = 70_001

pytestmark = pytest.mark.skipif(load() is None, reason="there are no kernels")


def make(seed: int | None, momentum: float) -> tuple[list[torch.nn.Parameter], cl.CoLA]:
    weights = [torch.nn.Parameter(torch.full((269, 261), 0.1)), torch.nn.Parameter(torch.ones(7))]
    groups = [{"params": weights[:1], "constraint": cl.Circle(0.5)}, {"params": weights[1:]}]
    optimizer = cl.CoLA(groups, lr=0.01, momentum=momentum, temperature=0.1, seed=seed, fused=True)
    return weights, optimizer


def advance(weights: list[torch.nn.Parameter], optimizer: cl.CoLA, steps: int) -> list[Tensor]:
    for _ in range(steps):
        for weight in weights:
            weight.grad = weight.detach().clone()
        optimizer.step()
    return [weight.detach().clone() for weight in weights]


@pytest.mark.filterwarnings("ignore:another optimizer was made from the same weights")
@pytest.mark.parametrize("momentum", [0.9, 0.0])
@pytest.mark.parametrize("own", [True, False])
def test_a_fused_run_resumes_bit_for_bit(own: bool, momentum: float) -> None:
    weights, optimizer = make(9 if own else None, momentum)
    advance(weights, optimizer, 3)
    file = io.BytesIO()
    torch.save({"weights": weights, "optimizer": optimizer.state_dict()}, file)
    expected = advance(weights, optimizer, 3)
    file.seek(0)
    saved = torch.load(file, weights_only=True)
    weights, optimizer = make(10 if own else None, momentum)
    advance(weights, optimizer, 1)
    with torch.no_grad():
        for weight, value in zip(weights, saved["weights"], strict=True):
            weight.copy_(value)
    optimizer.load_state_dict(saved["optimizer"])
    for found, value in zip(advance(weights, optimizer, 3), expected, strict=True):
        assert torch.equal(found, value)


def test_a_fused_run_does_move_by_its_noise() -> None:
    """Overdamped and flat, one step moves by √(2τh) times a standard normal."""
    weight = torch.nn.Parameter(torch.zeros(SIZE))
    optimizer = cl.CoLA([weight], lr=0.01, momentum=0.0, temperature=0.5, seed=11, fused=True)
    for step in range(2):
        before = weight.detach().clone()
        weight.grad = torch.zeros_like(weight)
        optimizer.step()
        (expected,) = normals([key_of(11, 0, step, 0)], SIZE)
        torch.testing.assert_close(weight.detach() - before, 0.1 * expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("constraint", [None, cl.Circle(2.0), cl.Orthogonal()], ids=str)
def test_autograd_knows_that_a_weight_was_changed(constraint: cl.Constraint | None) -> None:
    """In a step whose gradients are found anew, and in one that reads them where they lie."""
    weight = torch.nn.Parameter(torch.eye(3))
    optimizer = cl.CoLA([weight], lr=0.01, constraint=constraint, fused=True)
    weight.grad = torch.ones(3, 3)
    for _ in range(3):
        loss = weight.square().sum()
        optimizer.step()
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()
