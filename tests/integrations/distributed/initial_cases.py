"""Sharded weights whose radii come from their first weights."""

from __future__ import annotations

import copy
from typing import Any

import torch
from checkpoint_cases import load, save
from shard_cases import network, sharded, train, whole
from torch import Tensor, nn

import colangevin as cl

RULES: dict[str, cl.Constraint] = {
    "sphere.weight": cl.Sphere("initial", equality=True),  # uneven: 5 rows
    "unit.weight": cl.Sphere("initial", factor=1.2),  # 2, 2, 0 rows on 3
    "tall.weight": cl.Sphere("initial", equality=True, dim=1),  # its rows are cut through
    "square.weight": cl.Sphere("initial", factor=0.8, dim=1),
    "circle.weight": cl.Sphere("initial", blocks=2, factor=1.1),
    "columns.weight": cl.Sphere("initial", equality=True, dim=1, blocks=2),
    "gain": cl.Sphere("initial", equality=True),
    "radii.weight": cl.Circle("initial"),
}


def optimizer_of(model: nn.Module) -> cl.CoLA:
    groups = cl.parameter_groups(model, RULES)
    return cl.CoLA(groups, lr=0.002, momentum=0.9, temperature=1e-3, seed=2)


def path(rank: int) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Weights after a training without shards, and after one with them."""
    plain: nn.Module = network(torch.float64)
    cut = sharded(copy.deepcopy(plain))
    for model in (plain, cut):
        train(model, optimizer_of(model), 5)
    return whole(plain), whole(cut)


def resumed(rank: int, folder: str) -> tuple[dict[str, Tensor], dict[str, Tensor], list[Any]]:
    """Weights of a run in one go, and of one from a distributed checkpoint in the middle."""
    model: nn.Module = sharded(network(torch.float64))
    optimizer = optimizer_of(model)
    train(model, optimizer, 3)
    save(model, optimizer, folder)
    train(model, optimizer, 3, first=3)
    other: nn.Module = network(torch.float64)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.mul_(1.5)  # other first weights, so other radii, until it is loaded
    other = sharded(other)
    second = optimizer_of(other)
    load(other, second, folder)
    train(other, second, 3, first=3)
    shapes = [tuple(second.state[p]["radius"].shape) for p in (other.sphere.weight, other.gain)]
    return whole(model), whole(other), shapes
