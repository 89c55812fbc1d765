"""Sharded weights in half precision, without a float32 copy."""

from __future__ import annotations

import copy

import torch
from shard_cases import sharded, whole
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, distribute_tensor

import colangevin as cl

RULES: dict[str, cl.Constraint | None] = {
    "free": None,
    "circle": cl.Circle(0.5),
    "rows": cl.Sphere(0.8),
    "columns": cl.Sphere(0.8, dim=1, equality=True),  # its rows are cut through
    "orthogonal": cl.Orthogonal(),
}


class Matrices(nn.Module):
    """A weight for each rule: 5 rows, uneven on 2 and on 3."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(4)
        for name in RULES:
            setattr(self, name, nn.Parameter((0.3 * torch.randn(5, 3)).bfloat16()))


def train(model: nn.Module, optimizer: cl.CoLA, steps: int) -> None:
    """Steps along gradients that are known whole, so no forward pass is needed."""
    for step in range(steps):
        draw = torch.Generator().manual_seed(step)
        for parameter in model.parameters():
            slope = torch.randn(5, 3, generator=draw).bfloat16()
            if isinstance(parameter, DTensor):
                slope = distribute_tensor(slope, parameter.device_mesh, parameter.placements)
            parameter.grad = slope
        optimizer.step()


def path(rank: int, momentum: float) -> tuple[dict[str, Tensor], dict[str, Tensor], bool]:
    """Weights after steps without shards and with them, and whether a float32 copy is kept."""
    plain: nn.Module = Matrices()
    cut = sharded(copy.deepcopy(plain))
    kept = False
    for model in (plain, cut):
        groups = cl.parameter_groups(model, RULES)
        optimizer = cl.CoLA(groups, lr=1e-3, momentum=momentum, rounding="stochastic", seed=2)
        train(model, optimizer, 6)
        kept = kept or any("master" in entry for entry in optimizer.state.values())
    return whole(plain), whole(cut), kept
