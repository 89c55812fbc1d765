"""One training step of all members: forward, backward and update as one computation.

The step is written for a single member, with the same ``advance`` as the optimizer, and
``vmap`` makes it the step of all. Geometries whose projection can fail look at their numbers, so
they stay outside: they take all members' matrices as one batch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value, vmap
from torch.utils import _pytree as pytree

from colangevin.constraints import Constraint, State
from colangevin.ensemble.noise import MemberNoise
from colangevin.ensemble.numbers import Moves
from colangevin.integrators.dynamics import advance, needed
from colangevin.optimizers.kernels import compile_static

Loss: TypeAlias = Callable[[Any, Any], Tensor]
Tensors: TypeAlias = "dict[str, Tensor]"
Penalty: TypeAlias = Callable[[Tensors], Tensor]


@dataclass(frozen=True)
class Cell:
    """A parameter whose geometry can be vectorised over the members.

    Attributes:
        name: the parameter's name.
        constraint: its geometry, bound to the shape that it has in one member.
        constants: the geometry's numbers, [members, numbers]; empty if it keeps its own.
    """

    name: str
    constraint: Constraint
    constants: Tensor


@dataclass
class Store:
    """All that changes in training; every tensor has the members as its first dimension."""

    position: Tensors
    momentum: Tensors = field(default_factory=dict)
    slack: Tensors = field(default_factory=dict)
    slack_momentum: Tensors = field(default_factory=dict)
    buffers: Tensors = field(default_factory=dict)

    def parts(self) -> dict[str, Tensors]:
        """The dictionaries by name."""
        return dict(vars(self))


def member_step(
    model: nn.Module,
    loss: Loss,
    penalty: Penalty | None,
    cells: Sequence[Cell],
    moves: Moves,
) -> Callable[..., tuple[dict[str, Tensors], Tensors, Tensor]]:
    """Make the function of one member's tensors that a step is.

    It returns what has changed, the gradients of the parameters that are not in ``cells``, and
    the loss before the step.
    """
    objective = _objective(model, loss, penalty)

    def step(
        parts: Mapping[str, Tensors],
        frozen: Tensors,
        constants: Tensors,
        numbers: Tensor,
        keys: Tensor,
        inputs: Any,
        targets: Any,
    ) -> tuple[dict[str, Tensors], Tensors, Tensor]:
        position = parts["position"]
        rest = {**frozen, **parts["buffers"]}
        gradients, (value, buffers) = grad_and_value(objective, has_aux=True)(
            position, rest, inputs, targets
        )
        changed: dict[str, Tensors] = {name: {} for name in parts}
        changed["buffers"] = {name: buffers[name] for name in parts["buffers"]}
        decay, *values = numbers.unbind()
        actions = moves.actions(values)
        states = {cell.name: _read(cell, parts) for cell in cells}
        sizes = [needed(states[c.name], c.constraint.elementwise, actions) for c in cells]
        noise = MemberNoise(keys, sum(sizes))
        for cell in cells:
            state, constraint = states[cell.name], cell.constraint
            if cell.name in constants:
                constraint = constraint.with_numbers(constants[cell.name].unbind())
            force = _batch(constraint, gradients.pop(cell.name))
            if moves.decays:
                force = force + decay * state.position
            new = advance(constraint, state, force, actions, noise.draw)
            _write(cell, changed, new, position[cell.name].shape)
        return changed, gradients, value.detach()

    return step


def _objective(model: nn.Module, loss: Loss, penalty: Penalty | None) -> Callable[..., Any]:
    """The loss of a member's tensors, and its buffers as the forward pass leaves them."""

    def objective(position: Tensors, rest: Tensors, inputs: Any, targets: Any) -> Any:
        buffers = {name: tensor.clone() for name, tensor in rest.items()}  # they may be changed
        value = loss(functional_call(model, {**position, **buffers}, (inputs,)), targets)
        return (value if penalty is None else value + penalty(position)), buffers

    return objective


def _batch(constraint: Constraint, tensor: Tensor) -> Tensor:
    """The layout that the geometry wants; elementwise ones take any."""
    return tensor if constraint.elementwise else constraint.to_batch(tensor)


def _read(cell: Cell, parts: Mapping[str, Tensors]) -> State:
    found = {name: parts[name].get(cell.name) for name in State._fields}
    for name in ("position", "momentum"):
        tensor = found[name]
        found[name] = None if tensor is None else _batch(cell.constraint, tensor)
    return State(**found)  # type: ignore[arg-type]


def _write(cell: Cell, parts: dict[str, Tensors], state: State, shape: torch.Size) -> None:
    for name, tensor in zip(State._fields, state, strict=True):
        if tensor is None:
            continue
        if name in ("position", "momentum"):
            tensor = cell.constraint.from_batch(tensor, shape)
        parts[name][cell.name] = tensor


def compiled(function: Callable[..., Any], arguments: Sequence[Any], in_place: bool) -> Any:
    """Trace ``vmap(function)`` on the arguments' shapes and give it to inductor.

    Args:
        function: a member's step.
        arguments: the tensors of all members, the first being what a step changes.
        in_place: write the changes into the first argument's tensors.
    """
    flat, structure = pytree.tree_flatten(tuple(arguments))
    result: list[Any] = []

    def body(*tensors: Tensor) -> list[Tensor]:
        given = pytree.tree_unflatten(tensors, structure)
        out = vmap(function, randomness="different")(*given)
        if in_place:
            overwrite(given[0], out[0])
            out = ({}, *out[1:])
        leaves, out_structure = pytree.tree_flatten(out)
        result[:] = [out_structure]
        return leaves

    # Tracing runs the body, so it gets copies.
    kernel = compile_static(body, [tensor.clone() for tensor in flat])

    def run(*given: Any) -> Any:
        leaves = kernel(*pytree.tree_leaves(given))
        return pytree.tree_unflatten(leaves, result[0])

    return run


def overwrite(old: Mapping[str, Tensors], new: Mapping[str, Tensors]) -> None:
    """Copy what a step has changed into the tensors that it was made from."""
    for name, tensors in new.items():
        for key, tensor in tensors.items():
            if key in old[name]:
                old[name][key].copy_(tensor)
            else:  # a momentum begins with the first step
                old[name][key] = tensor
