"""Carrying out plans: what may fail is computed first, then everything is written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from torch import Tensor

from colangevin.constraints import State
from colangevin.constraints.base import plus
from colangevin.errors import ConvergenceError
from colangevin.integrators.dynamics import advance
from colangevin.optimizers.buckets import StateOf
from colangevin.optimizers.certainty import is_certain
from colangevin.optimizers.elementwise import run_in_blocks
from colangevin.optimizers.fused import Fused
from colangevin.optimizers.noise import Noise
from colangevin.optimizers.planning import Plan
from colangevin.optimizers.resident import Resident


class Work(NamedTuple):
    """A plan with what it starts from."""

    plan: Plan
    state: State
    gradient: Tensor


def run(plans: Sequence[Plan], state_of: StateOf, noise: Noise, fused: Fused | None) -> None:
    """Make a step.

    Raises:
        ConvergenceError: parameters, state and generators are as they were.
    """
    fallible = [plan for plan in plans if plan.bucket.constraint.fallible]
    certain, risky = _by_certainty(fallible, state_of)
    generators = noise.state_dict() if risky else None
    try:
        results = [(plan, _advance(_read(plan, state_of), noise)) for plan in risky]
    except Exception:
        assert generators is not None
        noise.load_state_dict(generators)
        raise
    for plan, state in results:
        _write(plan, state_of, state)
    for work in certain:
        _write(work.plan, state_of, _advance(work, noise, in_place=True), in_place=True)
    for plan in plans:
        if plan.bucket.constraint.fallible:
            continue
        if plan.resident is not None and plan.bucket.constraint.elementwise:
            _advance_in_place(plan, plan.resident, state_of, noise, fused)
        else:
            _write(plan, state_of, _advance(_read(plan, state_of), noise))
    for work in certain:
        work.plan.bucket.constraint.report()


def _by_certainty(plans: Sequence[Plan], state_of: StateOf) -> tuple[list[Work], list[Plan]]:
    """The works that cannot fail, which are done in place, and the plans that can."""
    certain: list[Work] = []
    risky: list[Plan] = []
    for plan in plans:
        constraint = plan.bucket.constraint
        work = _read(plan, state_of) if constraint.overflows_only else None
        if work is not None and is_certain(constraint, *work[1:], plan.actions, plan.weight_decay):
            certain.append(work)
        else:
            risky.append(plan)
    return certain, risky


def _read(plan: Plan, state_of: StateOf) -> Work:
    home = plan.bucket if plan.resident is None else plan.resident
    state = home.read(state_of, plan.momentum)
    return Work(plan, state, plan.bucket.gradient())


def _write(plan: Plan, state_of: StateOf, state: State, in_place: bool = False) -> None:
    if plan.resident is None:
        plan.bucket.write(state_of, state)
    else:
        plan.resident.commit(state_of, None if in_place else state)


def _advance_in_place(
    plan: Plan, resident: Resident, state_of: StateOf, noise: Noise, fused: Fused | None
) -> None:
    state = resident.read(state_of, plan.momentum)
    gradient = plan.bucket.gradient()
    if fused is None or not fused.run(plan, state, gradient, noise.fill):
        constraint = plan.bucket.constraint
        run_in_blocks(constraint, state, gradient, plan.weight_decay, plan.actions, noise.draw)
    resident.commit(state_of)


def _advance(work: Work, noise: Noise, in_place: bool = False) -> State:
    plan, state, gradient = work
    constraint = plan.bucket.constraint
    if plan.weight_decay:
        gradient = plus(gradient, state.position, plan.weight_decay)
    try:
        return advance(constraint, state, gradient, plan.actions, noise.draw, in_place=in_place)
    except ConvergenceError as error:
        raise ConvergenceError(f"{plan.bucket.name}: {error}") from error
