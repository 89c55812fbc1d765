"""Looking at members: what they predict, and how well they hold their constraints."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from colangevin.constraints import State
from colangevin.ensemble.coupled import Coupled
from colangevin.ensemble.step import Cell, Store


@torch.no_grad()
def evaluate(
    template: nn.Module,
    tensors: dict[str, Tensor],
    function: Callable[[Any, Any], Tensor],
    inputs: Tensor,
    targets: Tensor | None,
    rows: Tensor | None,
) -> Tensor:
    """A function of every member's outputs and targets, in evaluation mode.

    Args:
        template: the module.
        tensors: stacked parameters and buffers.
        function: of one member's outputs and targets.
        inputs: of all members, or one a seed.
        targets: likewise.
        rows: which of the inputs belong to the members; None if they belong to all.
    """
    if rows is not None:
        inputs = inputs[rows]
        targets = None if targets is None else targets[rows]
    data_dim = None if rows is None else 0

    def one(own: dict[str, Tensor], x: Tensor, y: Tensor | None) -> Tensor:
        return function(functional_call(template, own, (x,)), y)

    was_training = template.training
    template.eval()
    try:
        in_dims = (0, data_dim, None if targets is None else data_dim)
        return vmap(one, in_dims=in_dims)(tensors, inputs, targets)
    finally:
        template.train(was_training)


@torch.no_grad()
def violation(
    cells: Sequence[Cell], coupled: Sequence[Coupled], store: Store, members: int
) -> Tensor:
    """The largest relative violation of each member."""
    found = [torch.zeros(members, dtype=torch.float64)]
    found += [_residual(cell, store).double().cpu() for cell in cells]
    for part in coupled:
        found += [residual.double().cpu() for residual in part.residual(members)]
    return torch.stack(found).amax(dim=0)


def _residual(cell: Cell, store: Store) -> Tensor:
    """The largest violation of a parameter in each member."""
    worst = []
    for row, position in enumerate(store.position[cell.name]):
        constraint = cell.constraint
        if cell.constants.shape[1]:
            constraint = constraint.with_numbers(cell.constants[row].unbind())
        flat = position if constraint.elementwise else constraint.to_batch(position)
        slack = store.slack.get(cell.name)
        found = constraint.residual(State(flat, slack=None if slack is None else slack[row]))
        worst.append(found.abs().max())
    return torch.stack(worst)
