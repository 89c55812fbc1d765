"""A small task for tests in frameworks."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

import colangevin as cl

KINDS: dict[str, cl.Constraint | None] = {
    "free": None,
    "circle": cl.Circle(0.5),
    "sphere": cl.Sphere(1.0),
    "sphere_equality": cl.Sphere(1.0, equality=True),
    "orthogonal": cl.Orthogonal(),
    "general": cl.General(lambda row: row.square().sum() - 1.0, batch_dims=1),
}


def network(seed: int = 1) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))


def data(count: int = 48) -> tuple[Tensor, Tensor]:
    inputs = torch.randn(count, 4, generator=torch.Generator().manual_seed(0))
    return inputs, inputs[:, 0] * inputs[:, 1]


def loss_of(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    return (model(inputs).squeeze(1) - targets).square().mean()


def optimizer_for(
    model: nn.Module, constraint: cl.Constraint | None = None, prefix: str = "", **options: Any
) -> cl.CoLA:
    groups = cl.parameter_groups(model, {f"{prefix}0.weight": constraint})
    settings = {"lr": 0.02, "momentum": 0.9, "temperature": 1e-4, "seed": 0, **options}
    return cl.CoLA(groups, **settings)


def multirate_for(model: nn.Sequential) -> cl.Multirate:
    fast = cl.CoLA(model[2].parameters(), lr=0.02, momentum=0.9, temperature=1e-4, seed=0)
    groups = cl.parameter_groups(model[0], {"weight": cl.Orthogonal()})
    slow = cl.CoLA(groups, lr=0.1, momentum=0.9, temperature=1e-4, seed=1)
    return cl.Multirate(fast, slow, period=5)


def train(model: nn.Module, optimizer: Any, steps: int) -> float:
    inputs, targets = data()
    for _ in range(steps):
        optimizer.zero_grad()
        loss = loss_of(model, inputs, targets)
        loss.backward()
        optimizer.step()
    return float(loss.detach())
