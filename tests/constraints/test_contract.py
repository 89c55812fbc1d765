"""A geometry of the user's that breaks the contract is refused, in words, before anything moves."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import colangevin as cl


class OneDimension(cl.Sphere):
    """Rows and copies in one dimension, which nobody could take apart."""

    def to_batch(self, tensor: Tensor, batch_dims: int = 0) -> Tensor:
        return tensor.flatten()


class NoStack(cl.Sphere):
    """It forgets the leading dimensions."""

    def to_batch(self, tensor: Tensor, batch_dims: int = 0) -> Tensor:
        return tensor.flatten(1)


class NoArgument(cl.Sphere):
    def to_batch(self, tensor: Tensor) -> Tensor:  # type: ignore[override]
        return tensor.flatten(1)


class NoWayBack(cl.Sphere):
    def from_batch(self, batch: Tensor, shape: torch.Size) -> Tensor:
        return batch


BROKEN: dict[type[cl.Sphere], str] = {
    OneDimension: r"0.weight: OneDimension.to_batch must return \[copies, ...\] with at least 2 "
    r"dimensions, got \(8,\) .* set elementwise = True",
    NoStack: r"NoStack.to_batch\(tensor, batch_dims=1\) must lay a stack of two weights of shape "
    r"\(2, 4\) out as \(4, 4\) or \(2, 2, 4\), .* got \(2, 8\)",
    NoArgument: r"NoArgument.to_batch\(tensor, batch_dims=1\) must take a stack .* TypeError",
    NoWayBack: r"NoWayBack.from_batch must undo to_batch .* \(2, 2, 2\) .* got \(2, 4\)",
}


def network(shape: tuple[int, ...]) -> nn.Module:
    model = nn.Sequential(nn.Linear(4, 2, bias=False))
    model[0].weight = nn.Parameter(torch.ones(shape))
    return model


@pytest.mark.parametrize("broken", BROKEN)
def test_it_is_refused_with_the_method_and_the_shapes(broken: type[cl.Sphere]) -> None:
    model = network((2, 2, 2) if broken is NoWayBack else (2, 4))
    rules: dict[str, Any] = {"*.weight": broken(1.0, equality=True)}
    with pytest.raises(cl.ConstraintError, match=BROKEN[broken]):
        cl.CoLA(cl.parameter_groups(model, rules), lr=0.1)
    with pytest.raises(cl.ConstraintError, match=BROKEN[broken]):
        cl.Ensemble(lambda: model, [1, 2], rules, compile=False, lr=0.1)
    assert bool((model[0].weight == 1.0).all())


def test_the_check_takes_no_memory() -> None:
    """A weight of 4 TB, of which there are only the sizes."""
    from colangevin.constraints.contract import check_contract

    check_contract(cl.Sphere(1.0), torch.Size([1_000_000, 1_000_000]))
    check_contract(cl.Orthogonal(), torch.Size([1_000_000, 1_000_000]))
    check_contract(cl.Circle(1.0), torch.Size([1_000_000, 1_000_000]))
