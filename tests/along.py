"""Paths along a direction under a geometry of the registry, however the steps are computed."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, distribute_tensor

import colangevin as cl
from registry import CASES, DIRECTIONS, Case

NAMED = {case.name: case for case in CASES}
LR, DECAY, STEPS, SAVED = 0.02, 0.1, 5, 2
"""Of the paths: the first lr, the decoupled weight decay, all steps, and those before a save."""


def refusal(case: Case, name: str) -> str:
    """What is said of a direction that a geometry has no place for; nothing of the others."""
    made, constraint = DIRECTIONS[name](), case.bound()
    if isinstance(made, cl.Polar) and any(len(shape) < 2 for shape in case.shapes):
        return "direction 'polar' needs matrices"
    zeros = [constraint.to_batch(torch.zeros(shape)) for shape in case.shapes]
    if made.tangent and (constraint.joint or constraint.lift(zeros[0]) is not None):
        return "tangent=True of direction .* needs free weights or an equality"
    return ""


PAIRS = [(case.name, name) for case in CASES for name in DIRECTIONS if not refusal(case, name)]
REFUSED = [(case.name, name) for case in CASES for name in DIRECTIONS if refusal(case, name)]


class Weights(nn.Module):
    """The weights of a case; what it returns for inputs of 0 are the weights themselves."""

    def __init__(self, name: str, seed: int = 0) -> None:
        super().__init__()
        self.own = nn.ParameterList(NAMED[name].weights(seed=seed))

    def forward(self, inputs: Tensor) -> Tensor:
        return torch.cat([weight.flatten() for weight in self.own]) + inputs


def aims(name: str, step: int) -> list[Tensor]:
    """Where half the squared distance pulls the weights in a step."""
    draw = torch.Generator().manual_seed(step)
    return [0.5 * torch.randn(s, generator=draw, dtype=torch.float64) for s in NAMED[name].shapes]


def optimizer_of(model: nn.Module, name: str, direction: str, **options: Any) -> cl.CoLA:
    """The optimizer of all weights of a model."""
    settings = {"lr": LR, "decoupled_weight_decay": DECAY, "constraint": NAMED[name].make()}
    return cl.CoLA(model.parameters(), direction=DIRECTIONS[direction](), **settings | options)


def follow(weights: list[Any], optimizer: Any, name: str, steps: range) -> None:
    """Steps along the slopes, with an lr that falls."""
    for step in steps:
        for weight, aim in zip(weights, aims(name, step), strict=True):
            if isinstance(weight, DTensor):
                aim = distribute_tensor(aim, weight.device_mesh, weight.placements)
            weight.grad = (weight.detach() - aim).to(weight.dtype)
        for group in optimizer.param_groups:
            group["lr"] = LR * 0.9**step
        optimizer.step()


def expected(name: str, direction: str, **options: Any) -> list[Tensor]:
    """Where the formulas in torch lead."""
    model = Weights(name)
    optimizer = optimizer_of(model, name, direction, fused=False, **options)
    follow(list(model.own), optimizer, name, range(STEPS))
    return [weight.detach() for weight in model.own]
