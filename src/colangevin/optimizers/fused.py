"""Elementwise steps as one compiled kernel each.

The kernel is the same ``advance`` as everywhere, traced and given to inductor. All numbers
(learning rate, temperature, radius, ...) and the size are inputs, so none of them compiles
anew when it changes, and a call costs about as much as one eager operation.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor

from colangevin.constraints import Constraint, State
from colangevin.constraints.base import Draw, Scalar
from colangevin.integrators.dynamics import Action, OverdampedBy, advance
from colangevin.optimizers.elementwise import copy_state

Kernel: TypeAlias = Callable[..., Any]

EXAMPLE_SIZE = 8191
"""Size to trace with: no length of a list of numbers, so that it is taken for a variable."""


class Fused:
    """Compiled kernels, one for each kind of step.

    Where there is no compiler, this is announced once and ``run`` declines.
    """

    def __init__(self) -> None:
        self._kernels: dict[tuple[object, ...], Kernel] = {}
        self._numbers: dict[tuple[object, ...], Tensor] = {}
        self.works = True

    def run(
        self,
        constraint: Constraint,
        state: State,
        gradient: Tensor,
        weight_decay: float,
        actions: Sequence[Action],
        draw: Draw,
    ) -> bool:
        """Advance flat tensors in place; False if there is no kernel for it."""
        if not self.works or gradient.dim() != 1:
            return False
        decays = bool(weight_decay)
        kind = (
            type(constraint),
            gradient.dtype,
            gradient.device,
            decays,
            *((type(action), *(value is None for value in action)) for action in actions),
        )
        kernel = self._kernels.get(kind)
        if kernel is None:
            try:
                kernel = _compile(constraint, state, gradient, decays, actions)
            except Exception as error:
                self._announce(error)
                return False
            self._kernels[kind] = kernel
        values = (*constraint.numbers(), weight_decay, *_flatten(actions))
        tensors = [t for t in state if t is not None]
        noises = [draw(like) for like in _drawn(state, actions)]
        kernel(*tensors, gradient, self._as_tensor(values, gradient), *noises)
        return True

    def _announce(self, error: Exception) -> None:
        self.works = False
        warnings.warn(
            f"fused=True, but the kernel could not be compiled ({type(error).__name__}: "
            f"{str(error)[:200]}); the eager path is taken",
            RuntimeWarning,
            stacklevel=2,
        )

    def _as_tensor(self, values: tuple[Scalar, ...], reference: Tensor) -> Tensor:
        key = (*values, reference.dtype, reference.device)
        if key not in self._numbers:
            if len(self._numbers) > 100:  # a schedule makes new numbers every step
                self._numbers.clear()
            self._numbers[key] = torch.tensor(
                values, dtype=reference.dtype, device=reference.device
            )
        return self._numbers[key]


def _flatten(actions: Sequence[Action]) -> list[Any]:
    return [value for action in actions for value in action if value is not None]


def _drawn(state: State, actions: Sequence[Action]) -> Iterator[Tensor]:
    """What the actions will ask ``draw`` for, in their order."""
    for action in actions:
        if getattr(action, "scale", None) is not None:
            yield state.position
            if isinstance(action, OverdampedBy) and state.slack is not None:
                yield state.slack


def _compile(
    constraint: Constraint,
    state: State,
    gradient: Tensor,
    decays: bool,
    actions: Sequence[Action],
) -> Kernel:
    """Trace the step with sizes as variables and compile it."""
    # Imported here because it takes a second, which only those who fuse should wait.
    import torch._inductor as inductor
    from torch.fx.experimental.proxy_tensor import make_fx

    example = torch.zeros(EXAMPLE_SIZE, dtype=gradient.dtype, device=gradient.device)
    noises = len(list(_drawn(state, actions)))
    count = sum(tensor is not None for tensor in state) + 1
    numbers = example.new_ones(len(constraint.numbers()) + 1 + len(_flatten(actions)))
    inputs = [*(example.clone() for _ in range(count)), numbers]
    inputs += [example.clone() for _ in range(noises)]
    body = _body(constraint, tuple(tensor is None for tensor in state), decays, actions)
    graph = make_fx(body, tracing_mode="symbolic")(*inputs)
    symbols = [node.meta["val"] for node in graph.graph.nodes if node.op == "placeholder"]
    kernel: Kernel = inductor.compile(graph, symbols)
    kernel(*inputs)  # what does not run here is no kernel
    return kernel


def _body(
    constraint: Constraint, absent: tuple[bool, ...], decays: bool, actions: Sequence[Action]
) -> Kernel:
    """The step as a function of tensors alone: state, gradient, numbers, noises."""
    constants = len(constraint.numbers())

    def body(*tensors: Tensor) -> None:
        rest = iter(tensors)
        state = State(*[None if missing else next(rest) for missing in absent])  # type: ignore[arg-type]
        gradient = next(rest)
        values = next(rest).unbind()
        geometry = constraint.with_numbers(values[:constants])
        force = gradient + values[constants] * state.position if decays else gradient
        fields = iter(values[constants + 1 :])
        moves: list[Any] = []
        for action in actions:
            kind: Any = type(action)
            moves.append(kind(*[None if value is None else next(fields) for value in action]))
        copy_state(state, advance(geometry, state, force, moves, lambda like: next(rest)))

    return body
