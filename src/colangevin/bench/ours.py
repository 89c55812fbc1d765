"""This library's contestants, and the one that draws random numbers alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from colangevin.bench.contestant import Contestant, Setting, Weight, bytes_of
from colangevin.constraints import Circle, Constraint, Orthogonal
from colangevin.optimizers import CoLA

Build = Callable[[Setting], Contestant]

SMALL = 1 << 14
"""Below this size elementwise parameters share a bucket."""


def constraint_of(weight: Weight) -> Constraint | None:
    """The constraint that a weight asks for."""
    if weight.kind == "circle":
        return Circle(radius=weight.radius)
    if weight.kind == "orthogonal":
        return Orthogonal(batch_dims=1 if weight.stacked else 0)
    return None


def cola(
    *, momentum: bool = True, noise: bool = False, fused: bool | None = None, lr: float | None = None
) -> Build:
    """CoLA on a work's weights: under- or overdamped, with or without a temperature."""

    def build(setting: Setting) -> Contestant:
        parameters = [nn.Parameter(tensor.clone()) for tensor in setting.initial]
        for parameter in parameters:
            parameter.grad = torch.zeros_like(parameter)
        groups, constraints = group(setting.weights, parameters)
        optimizer = CoLA(
            groups,
            lr=setting.lr if lr is None else lr,
            momentum=setting.momentum if momentum else 0.0,
            temperature=setting.temperature if noise else 0.0,
            generator=torch.Generator(parameters[0].device).manual_seed(setting.seed),
            fused=fused,
        )
        return contestant_of(optimizer, setting.weights, parameters, constraints)

    return build


def group(
    weights: Sequence[Weight], parameters: Sequence[Tensor]
) -> tuple[list[dict[str, Any]], list[Constraint]]:
    """Parameter groups by constraint, and the constraints."""
    members: dict[tuple[object, ...], list[int]] = {}
    for index, weight in enumerate(weights):
        bound = weight.radius if weight.kind == "circle" else 0.0
        members.setdefault((weight.kind, bound, weight.stacked), []).append(index)
    groups, constraints = [], []
    for indices in members.values():
        entry: dict[str, Any] = {"params": [parameters[i] for i in indices]}
        constraint = constraint_of(weights[indices[0]])
        if constraint is not None:
            entry["constraint"] = constraint
            constraints.append(constraint)
        groups.append(entry)
    return groups, constraints


def contestant_of(
    optimizer: CoLA,
    weights: Sequence[Weight],
    parameters: Sequence[Tensor],
    constraints: Sequence[Constraint],
    step: Callable[[], object] | None = None,
) -> Contestant:
    """A CoLA optimizer as a contestant; ``step`` is a whole training step if given."""

    def violation() -> float | None:
        if not constraints:
            return None
        return max(found.residual for found in optimizer.violation())

    def note() -> str:
        used = sum(c.fallbacks for c in constraints if isinstance(c, Orthogonal))
        return f"polar factor used {used} times" if used else ""

    return Contestant(
        step=optimizer.step if step is None else step,
        gradients=[] if step is not None else [p.grad for p in parameters if p.grad is not None],
        parameters=sum(p.numel() for p in parameters),
        state_bytes=lambda: bytes_of([optimizer]),
        violation=violation,
        bucket=largest_bucket(weights),
        note=note,
    )


def largest_bucket(weights: Sequence[Weight]) -> int:
    """Numbers in the largest set of weights that one batched operation moves."""
    sizes: dict[tuple[object, ...], int] = {}
    for index, weight in enumerate(weights):
        key: tuple[object, ...] = (weight.kind, weight.radius)
        if weight.kind == "orthogonal":
            key = (weight.kind, *weight.matrix)
        elif weight.numel >= SMALL:
            key = (index,)
        sizes[key] = sizes.get(key, 0) + weight.numel
    return max(sizes.values())


def draw_alone(setting: Setting) -> Contestant:
    """``normal_`` of as many numbers as there are weights: the noise without a step."""
    buffer = torch.empty(setting.parameters, device=setting.initial[0].device)
    generator = torch.Generator(buffer.device).manual_seed(setting.seed)
    return Contestant(
        step=lambda: buffer.normal_(generator=generator),
        gradients=[],
        parameters=setting.parameters,
        state_bytes=lambda: 0,
    )
