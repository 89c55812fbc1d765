"""Carrying out plans: what may fail is computed first, then everything is written."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from colangevin.constraints import State
from colangevin.errors import ConvergenceError
from colangevin.integrators.dynamics import advance
from colangevin.optimizers.buckets import Bucket, StateOf
from colangevin.optimizers.elementwise import run_in_blocks
from colangevin.optimizers.fused import Fused
from colangevin.optimizers.noise import Noise
from colangevin.optimizers.planning import Plan
from colangevin.optimizers.resident import Resident


def run(plans: Sequence[Plan], state_of: StateOf, noise: Noise, fused: Fused | None) -> None:
    """Make a step.

    Raises:
        ConvergenceError: parameters, state and generators are as they were.
    """
    fallible = [plan for plan in plans if plan.bucket.constraint.fallible]
    generators = noise.state_dict() if fallible else None
    try:
        results = [(plan, _advance(plan, state_of, noise)) for plan in fallible]
    except Exception:
        assert generators is not None
        noise.load_state_dict(generators)
        raise
    for plan, state in results:
        _write(plan, state_of, state)
    for plan in plans:
        if plan.bucket.constraint.fallible:
            continue
        if plan.resident is not None and plan.bucket.constraint.elementwise:
            _advance_in_place(plan, plan.resident, state_of, noise, fused)
        else:
            _write(plan, state_of, _advance(plan, state_of, noise))


def _write(plan: Plan, state_of: StateOf, state: State) -> None:
    if plan.resident is None:
        plan.bucket.write(state_of, state)
    else:
        plan.resident.commit(state_of, state)


def _advance_in_place(
    plan: Plan, resident: Resident, state_of: StateOf, noise: Noise, fused: Fused | None
) -> None:
    state = resident.read(state_of, plan.momentum)
    gradient = _gradient(plan.bucket)
    if fused is None or not fused.run(plan, state, gradient, noise.fill):
        constraint = plan.bucket.constraint
        run_in_blocks(constraint, state, gradient, plan.weight_decay, plan.actions, noise.draw)
    resident.commit(state_of)


def _advance(plan: Plan, state_of: StateOf, noise: Noise) -> State:
    bucket = plan.bucket
    home = bucket if plan.resident is None else plan.resident
    state = home.read(state_of, plan.momentum)
    gradient = _gradient(bucket)
    if plan.weight_decay:
        gradient = gradient + plan.weight_decay * state.position
    try:
        return advance(bucket.constraint, state, gradient, plan.actions, noise.draw)
    except ConvergenceError as error:
        raise ConvergenceError(f"{bucket.name}: {error}") from error


def _gradient(bucket: Bucket) -> Tensor:
    # Without a gradient of its own, a parameter moves only with a joint constraint.
    return bucket.gather(
        [torch.zeros_like(p) if p.grad is None else p.grad for p in bucket.parameters]
    )
