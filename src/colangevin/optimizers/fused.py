"""Elementwise steps as one compiled kernel each.

The kernel is the same ``advance`` as everywhere, traced and given to inductor. All numbers
(learning rate, temperature, radius, ...) and the size are inputs, so none of them compiles
anew when it changes, and a call costs about as much as one eager operation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from colangevin.constraints import Circle, Constraint, State, Unconstrained
from colangevin.constraints.base import overwrite
from colangevin.integrators.dynamics import Action, advance, needed
from colangevin.optimizers.kernels import Kernel, announce, compile_with_numbers
from colangevin.optimizers.planning import Plan

THREADED = 1 << 15
"""Numbers from which on threads are worth waking, as in torch's own operations."""
BLOCK = 1 << 19
"""Weights whose noise is drawn at once: scratch does not grow with the network."""
EXAMPLE_SIZE = 8191
"""Size to trace with: no length of a list of numbers, so that it is taken for a variable."""


class Call(NamedTuple):
    """A kernel with the numbers of one plan, and the plan."""

    kernel: Kernel
    numbers: Tensor
    noises: int
    plan: Plan


class Fused:
    """Compiled kernels, one for each kind of step.

    Where there is no compiler, this is announced once and ``run`` declines.
    """

    def __init__(self) -> None:
        self._kernels: dict[tuple[object, ...], tuple[Kernel, Kernel]] = {}
        self._calls: dict[int, Call] = {}
        self._scratch: dict[tuple[object, ...], Tensor] = {}
        self._constraints: list[Constraint] = []  # whose identities are in use as keys
        self.works = True

    def run(
        self, plan: Plan, state: State, gradient: Tensor, fill: Callable[[Tensor], Tensor]
    ) -> bool:
        """Advance flat tensors in place; False if there is no kernel for it.

        ``fill`` overwrites a tensor with standard normals.
        """
        if not self.works or gradient.dim() != 1 or not _is_scalar(plan.bucket.constraint):
            return False
        gradient = gradient.contiguous()  # a kernel knows no other layout
        # Plans stay the same from step to step, and so does all that follows from them.
        call = self._calls.get(id(plan))
        if call is None or call.plan is not plan:
            call = self._prepare(plan, state, gradient)
            if call is None:
                return False
            if len(self._calls) > 100:  # a schedule makes new plans every step
                self._calls.clear()
            self._calls[id(plan)] = call
        tensors = [*[t for t in state if t is not None], gradient]
        if not call.noises:
            call.kernel(call.numbers, *tensors)
            return True
        for part in zip(*[tensor.split(BLOCK) for tensor in tensors], strict=True):
            noises = [fill(out) for out in self._room(part[0], call.noises)]
            call.kernel(call.numbers, *part, *noises)
        return True

    def _prepare(self, plan: Plan, state: State, gradient: Tensor) -> Call | None:
        """The kernel and its numbers; None, announced once, if it cannot be compiled."""
        constraint = plan.bucket.constraint
        threaded = gradient.numel() >= THREADED
        kind = (
            threaded,
            self._identity(constraint),
            gradient.dtype,
            gradient.device,
            bool(plan.weight_decay),
            *((type(action), *(value is None for value in action)) for action in plan.actions),
        )
        if kind not in self._kernels:
            try:
                self._kernels[kind] = _compile(plan, state, gradient, threaded)
            except Exception as error:
                self.works = False
                announce(error, "the eager path is taken")
                return None
        values = (*constraint.numbers(), plan.weight_decay, *_flatten(plan.actions))
        kernel, prepare = self._kernels[kind]
        numbers = prepare(torch.tensor(values, dtype=torch.float64)).to(gradient)
        return Call(kernel, numbers, _noises(state, plan.actions), plan)

    def _identity(self, constraint: Constraint) -> object:
        """What tells geometries apart: of these two all numbers are inputs of the kernel."""
        if type(constraint) in (Unconstrained, Circle):
            return type(constraint)
        self._constraints.append(constraint)
        return id(constraint)

    def _room(self, like: Tensor, count: int) -> Sequence[Tensor]:
        """Scratch for noise, kept between steps: as much as has been asked for at once."""
        size, key = like.numel(), (like.dtype, like.device)
        scratch = self._scratch.get(key)
        if scratch is None or scratch.numel() < count * size:
            scratch = self._scratch[key] = like.new_empty(count * size)
        return scratch[: count * size].split(size)


def _is_scalar(constraint: Constraint) -> bool:
    """Whether weights are laid out flat: with a radius a weight they are not."""
    return not isinstance(getattr(constraint, "radius", None), Tensor)


def _flatten(actions: Sequence[Action]) -> list[Any]:
    return [value for action in actions for value in action if value is not None]


def _noises(state: State, actions: Sequence[Action]) -> int:
    """How many normals the actions will ask ``draw`` for, for each weight."""
    return needed(state, True, actions) // max(1, state.position.numel())


def _compile(plan: Plan, state: State, gradient: Tensor, threaded: bool) -> tuple[Kernel, Kernel]:
    """Trace the step with sizes as variables and compile it."""
    example = torch.zeros(EXAMPLE_SIZE, dtype=gradient.dtype, device=gradient.device)
    noises = _noises(state, plan.actions)
    count = sum(tensor is not None for tensor in state) + 1
    constants = len(plan.bucket.constraint.numbers())
    numbers = example.new_ones(constants + 1 + len(_flatten(plan.actions)))
    inputs = [example.clone() for _ in range(count + noises)]
    body = _body(plan, tuple(tensor is None for tensor in state))
    return compile_with_numbers(body, numbers, inputs, threaded)


def _body(plan: Plan, absent: tuple[bool, ...]) -> Kernel:
    """The step as a function of tensors alone: numbers, state, gradient, noises."""
    constraint = plan.bucket.constraint
    constants = len(constraint.numbers())

    def body(numbers: Tensor, *tensors: Tensor) -> None:
        rest = iter(tensors)
        state = State(*[None if missing else next(rest) for missing in absent])  # type: ignore[arg-type]
        gradient = next(rest)
        values = numbers.unbind()
        geometry = constraint.with_numbers(values[:constants])
        force = gradient + values[constants] * state.position if plan.weight_decay else gradient
        fields = iter(values[constants + 1 :])
        moves: list[Any] = []
        for action in plan.actions:
            kind: Any = type(action)
            moves.append(kind(*[None if value is None else next(fields) for value in action]))
        overwrite(state, advance(geometry, state, force, moves, lambda like: next(rest)))

    return body
