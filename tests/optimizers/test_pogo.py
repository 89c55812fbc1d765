"""``Orthogonal`` next to POGO: along the direction of its metric, one step, to its order."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor, nn

import colangevin as cl
import reference_directions as literal


class Canonical(cl.Direction):
    """Without half of what lies outside of the rows of a wide weight: POGO's metric."""

    def update(
        self, gradient: Tensor, weight: Tensor, memory: dict[str, Tensor], step: int
    ) -> Tensor:
        return (gradient + gradient @ weight.mT @ weight) / 2


class VectorAdam(Canonical):
    """The same of POGO's base Adam: one second moment for each matrix."""

    keeps = ("mean", "square")

    def update(
        self, gradient: Tensor, weight: Tensor, memory: dict[str, Tensor], step: int
    ) -> Tensor:
        mean = memory["mean"].lerp_(gradient, 0.1)
        square = gradient.square().sum(dim=(-2, -1), keepdim=True)
        memory["square"].mul_(0.999).add_(square, alpha=0.001)
        root = (memory["square"] / (1.0 - 0.999**step)).sqrt() + 1e-8
        return super().update(mean / (1.0 - 0.9**step) / root, weight, memory, step)


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
    direction = VectorAdam() if adam else Canonical()
    found = path(start, partial(cl.CoLA, lr=lr, constraint=own, direction=direction), steps)
    expected = path(start, partial(literal.Pogo, lr=lr, vector_adam=adam), steps)
    return float((found - expected).norm())


every_shape = pytest.mark.parametrize("shape", [(5, 5), (3, 6)], ids=["square", "wide"])


@every_shape
@pytest.mark.parametrize("adam", [False, True])
def test_one_step_differs_by_its_square_at_most(adam: bool, shape: tuple[int, int]) -> None:
    start = matrices(*shape)
    one, half = (gap(start, lr, 1, adam) for lr in (0.02, 0.01))
    assert one > 1e-12  # they are two ways back to the manifold
    assert one / half > 3.5


@every_shape
@pytest.mark.parametrize("adam", [False, True])
def test_paths_of_a_given_length_come_together(adam: bool, shape: tuple[int, int]) -> None:
    start = matrices(*shape)
    coarse, fine = (gap(start, lr, round(0.4 / lr), adam) for lr in (0.02, 0.01))
    moved = (path(start, partial(literal.Pogo, lr=0.01, vector_adam=adam), 40) - start).norm()
    assert fine < 0.02 * float(moved)
    assert coarse / fine > 1.6


@pytest.mark.parametrize(("shape", "same"), [((5, 5), True), ((3, 6), False)])
def test_square_weights_need_no_direction_for_it(shape: tuple[int, int], same: bool) -> None:
    """Their rows leave nothing outside."""
    start, lr = matrices(*shape), 1e-5
    own = cl.Orthogonal(batch_dims=1)
    found = path(start, partial(cl.CoLA, lr=lr, constraint=own), 1)
    expected = path(start, partial(literal.Pogo, lr=lr), 1)
    assert (float((found - expected).norm()) < 0.01 * float((found - start).norm())) is same


@pytest.mark.parametrize("adam", [False, True])
def test_the_twin_is_the_package(adam: bool) -> None:
    pogo = pytest.importorskip("pogo")
    base = pytest.importorskip("pogo.base")
    start = matrices(3, 6)
    chosen = base.VectorAdam() if adam else base.SGD()
    expected = path(start, lambda own: pogo.POGO(own, chosen, lr=0.05), 20)
    found = path(start, partial(literal.Pogo, lr=0.05, vector_adam=adam), 20)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-10)
