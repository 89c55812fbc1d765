"""This library's contestants, and the one that draws random numbers alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from colangevin.constraints import Circle, Constraint, Orthogonal
from colangevin.lab.bench.contestant import Contestant, Setting, Weight, bytes_of
from colangevin.optimizers import CoLA

Build = Callable[[Setting], Contestant]

ALONE = 1 << 17
"""From this many numbers on, a weight is worth an operation of its own."""


def constraint_of(weight: Weight) -> Constraint | None:
    """The constraint that a weight asks for."""
    if weight.kind == "circle":
        return Circle(radius=weight.radius)
    if weight.kind == "orthogonal":
        return Orthogonal(batch_dims=1 if weight.stacked else 0)
    return None


def cola(
    *,
    momentum: bool = True,
    noise: bool = False,
    fused: bool | None = None,
    lr: float | None = None,
    scheduled: bool = False,
) -> Build:
    """CoLA on a work's weights: under- or overdamped, with or without a temperature.

    With ``scheduled`` every step has another learning rate, as in most trainings.
    """

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
            seed=setting.seed,
            fused=fused,
        )
        made = contestant_of(optimizer, parameters, constraints)
        made.compiles = fused is not False
        if scheduled:
            made.step = under_schedule(optimizer)
        return made

    return build


def under_schedule(optimizer: CoLA) -> Callable[[], object]:
    """A step after which the learning rate of every group is a millionth smaller."""

    def step() -> None:
        optimizer.step()
        for entry in optimizer.param_groups:
            entry["lr"] *= 1.0 - 1e-6

    return step


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
        used = sum(getattr(constraint, "fallbacks", 0) for constraint in constraints)
        return f"polar factor used {used} times" if used else ""

    return Contestant(
        step=optimizer.step if step is None else step,
        gradients=[] if step is not None else [p.grad for p in parameters if p.grad is not None],
        parameters=sum(p.numel() for p in parameters),
        state_bytes=lambda: bytes_of([optimizer]),
        kept_bytes=lambda: kept_bytes(optimizer),
        values=lambda: [p.detach() for p in parameters],
        violation=violation,
        constrained=bool(constraints),
        bucket=largest_batch(optimizer),
        note=note,
    )


def largest_batch(optimizer: CoLA) -> int:
    """Numbers in the largest set of weights that one batched operation should move.

    Small weights of one group and shape are worth a batch; a large one is moved alone.
    """
    sizes: dict[tuple[int, tuple[int, ...]], int] = {}
    for index, entry in enumerate(optimizer.param_groups):
        for parameter in entry["params"]:
            key = index, tuple(parameter.shape)
            before = sizes.get(key, 0) if parameter.numel() < ALONE else 0
            sizes[key] = before + parameter.numel()
    return max(sizes.values())


def kept_bytes(optimizer: CoLA) -> int:
    """Bytes that the optimizer holds besides parameters, gradients and state."""
    known = [*optimizer.state.values()]
    known += [(p, p.grad) for entry in optimizer.param_groups for p in entry["params"]]
    outside = {t.untyped_storage().data_ptr() for t in _tensors(known, set())}
    storages = {
        tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes()
        for tensor in _tensors(vars(optimizer), set())
    }
    return sum(size for pointer, size in storages.items() if pointer not in outside)


def _tensors(holder: object, seen: set[int]) -> Iterator[Tensor]:
    """All tensors that containers and the library's own objects lead to."""
    if id(holder) in seen:
        return
    seen.add(id(holder))
    if isinstance(holder, Tensor):
        yield holder
        return
    own = type(holder).__module__.startswith("colangevin")
    inside = vars(holder) if own and hasattr(holder, "__dict__") else holder
    if isinstance(inside, Mapping):
        inside = inside.values()
    elif not isinstance(inside, (list, tuple)):
        return
    for item in inside:
        yield from _tensors(item, seen)


def draw_alone(setting: Setting) -> Contestant:
    """``normal_`` of as many numbers as there are weights: the noise without a step."""
    buffer = torch.empty(setting.parameters, device=setting.device)
    generator = torch.Generator(buffer.device).manual_seed(setting.seed)
    return Contestant(
        step=lambda: buffer.normal_(generator=generator),
        gradients=[],
        parameters=setting.parameters,
        state_bytes=lambda: 0,
    )
