"""``Orthogonal`` next to POGO: on square matrices both make the same step, to its order."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import colangevin as cl
import reference_directions as literal


class VectorAdam(cl.Direction):
    """POGO's base Adam: one second moment for each matrix."""

    keeps = ("mean", "square")

    def update(
        self, gradient: Tensor, weight: Tensor, memory: dict[str, Tensor], step: int
    ) -> Tensor:
        mean = memory["mean"].lerp_(gradient, 0.1)
        square = gradient.square().sum(dim=(-2, -1), keepdim=True)
        memory["square"].mul_(0.999).add_(square, alpha=0.001)
        root = (memory["square"] / (1.0 - 0.999**step)).sqrt() + 1e-8
        return mean / (1.0 - 0.9**step) / root


def matrices(rows: int, columns: int) -> Tensor:
    draw = torch.Generator().manual_seed(0)
    tall = torch.randn(3, columns, rows, generator=draw).double()
    return torch.linalg.qr(tall)[0].mT.contiguous()


def path(
    start: Tensor, make: Callable[[list[Tensor]], torch.optim.Optimizer], steps: int
) -> Tensor:
    """Where steps along the gradients of a fixed quadratic lead."""
    weight = nn.Parameter(start.clone())
    draw = torch.Generator().manual_seed(1)
    aim = torch.randn(start.shape, generator=draw).double()
    optimizer = make([weight])
    for _ in range(steps):
        weight.grad = weight.detach() - aim
        optimizer.step()
    return weight.detach()


def gap(start: Tensor, lr: float, steps: int, adam: bool) -> float:
    """How far apart both are after some steps."""
    own = cl.Orthogonal(batch_dims=1)
    direction: Any = VectorAdam() if adam else "gradient"
    found = path(start, partial(cl.CoLA, lr=lr, constraint=own, direction=direction), steps)
    expected = path(start, partial(literal.Pogo, lr=lr, vector_adam=adam), steps)
    return float((found - expected).norm())


@pytest.mark.parametrize("adam", [False, True])
def test_one_step_differs_by_its_square_at_most(adam: bool) -> None:
    start = matrices(5, 5)
    one, half = (gap(start, lr, 1, adam) for lr in (0.02, 0.01))
    assert one > 1e-12  # they are two ways back to the manifold
    assert one / half > 3.5


@pytest.mark.parametrize("adam", [False, True])
def test_paths_of_a_given_length_come_together(adam: bool) -> None:
    start = matrices(5, 5)
    coarse, fine = (gap(start, lr, round(0.4 / lr), adam) for lr in (0.02, 0.01))
    moved = (path(start, partial(literal.Pogo, lr=0.01, vector_adam=adam), 40) - start).norm()
    assert fine < 0.02 * float(moved)
    assert coarse / fine > 1.6


def test_wide_matrices_move_half_as_far_outside_of_their_rows_with_pogo() -> None:
    """½(G − XGᵀX) has half of the part of G that lies outside of the space of the rows."""
    start, lr = matrices(3, 6), 1e-5
    draw = torch.Generator().manual_seed(1)
    slope = start - torch.randn(start.shape, generator=draw).double()
    outside = slope - slope @ start.mT @ start
    own = cl.Orthogonal(batch_dims=1)
    found = path(start, partial(cl.CoLA, lr=lr, constraint=own), 1)
    expected = path(start, partial(literal.Pogo, lr=lr), 1)
    torch.testing.assert_close((found - expected) / lr, -0.5 * outside, rtol=0, atol=1e-3)


@pytest.mark.parametrize("adam", [False, True])
def test_the_twin_is_the_package(adam: bool) -> None:
    pogo = pytest.importorskip("pogo")
    base = pytest.importorskip("pogo.base")
    start = matrices(3, 6)
    chosen = base.VectorAdam() if adam else base.SGD()
    expected = path(start, lambda own: pogo.POGO(own, chosen, lr=0.05), 20)
    found = path(start, partial(literal.Pogo, lr=0.05, vector_adam=adam), 20)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-10)
