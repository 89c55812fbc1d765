"""What a plan is asked in each step: does it still hold?

Parameters, their memory, their state and who has a gradient must be as they were. Options are no
part of the question: they are read, and where they have changed they become other numbers.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from colangevin.integrators.recipe import FAINT, Dynamics, Recipe
from colangevin.native import PLAIN
from colangevin.optimizers.option_checks import (
    refuse_other_friction,
    refuse_uncaptured,
    refuse_unread,
)
from colangevin.optimizers.options import (
    NUMBERS,
    check_direction,
    decays,
    dynamics,
    is_adaptive,
    own_direction,
    own_rounding,
)
from colangevin.optimizers.step.friction import FRICTION
from colangevin.optimizers.step.layout import STEP, WRITTEN, StateOf
from colangevin.optimizers.step.noise import SEEDS
from colangevin.random import key_of
from colangevin.torch_compat import local_of, version_of

if TYPE_CHECKING:
    from colangevin.optimizers.step.plan import Call, Plan

read_numbers = operator.itemgetter(*NUMBERS)
NO_OPTIONS = (*NUMBERS, "params", "constraint", "fallbacks", "iterations")
"""What is read elsewhere. All other entries of a group are looked at: one that means nothing to a
step, such as a flag of SGD, may have been set by a user who thinks that it does."""
CAPTURED = ("params", "constraint", "fallbacks", "iterations", "capturable")
"""What code that is compiled does not look at in a group, or asks for by itself."""
EMPTY: dict[str, Any] = {}


# --- options --------------------------------------------------------------------------------


def reads(
    plan: Plan, group: dict[str, Any], call: Call, index: int = 0, chain: int | None = None
) -> bool:
    """Take over the options of the group as they are now.

    Args:
        plan: of the group.
        group: the parameter group.
        call: what the step does.
        index: the place of the group.
        chain: which chain of noise this process has, where each has its own.

    Returns:
        False if they ask for another kind of step than the plan was made for.

    Raises:
        ValueError, TypeError: for an option that is wrong.
    """
    try:
        same = call is plan._call and len(group) == plan._size
        same = same and plan._read(group) == plan._others
        numbers = read_numbers(group)
        if same and numbers == plan._numbers:
            return True
    except (KeyError, RuntimeError, ValueError):  # one is missing, or an array or a tensor
        return _read_all(plan, group, call, index, chain)
    # What a schedule changes in every step, mostly: plain numbers in their range.
    (lr, momentum, friction, temperature, weight_decay, decoupled), old = numbers, plan.settings
    plain = same and plan.direction is None and decoupled == 0.0
    plain = plain and type(lr) is type(temperature) is type(weight_decay) is float
    if plain and friction is None and type(momentum) is float and type(old) is Dynamics:
        large = lr > FAINT and temperature >= 0.0 and weight_decay >= 0.0 <= momentum <= 1.0
        small = lr < math.inf and temperature < math.inf and weight_decay < math.inf
        if large and small and (momentum == 0.0) == (old.decay == 0.0):
            new = plan.settings = Dynamics(lr, momentum, temperature, old.scheme)
            plan.weight_decay, plan.rests, plan._numbers = weight_decay, False, numbers
            plan.recipes = {False: Recipe(new.actions(False), plan.momentum, weight_decay)}
            return True
    return _read_all(plan, group, call, index, chain)


def _read_all(plan: Plan, group: dict[str, Any], call: Call, index: int, chain: int | None) -> bool:
    refuse_unread(group)
    lr = group["lr"] if call.rates is None else call.rates[index]
    # Gradients that were kept have the weight decay of their time in them.
    coupled, decay = decays(group) if call.gradients is None else (0.0, 0.0)
    adaptive = is_adaptive(group)
    given = group if call.rates is None else {**group, "lr": lr}
    settings = dynamics(given, plan.captured)
    check_direction(group)
    if plan.captured:
        refuse_uncaptured(group)
    if adaptive:
        refuse_other_friction(group, plan._initial)
    momentum = not settings.is_overdamped
    kind = adaptive, momentum, own_direction(group), own_rounding(group)
    mine = plan.adaptive, plan.momentum, plan.direction, plan.rounding
    if plan._attached and kind != mine:
        return False
    plan.settings = settings
    plan.adaptive, plan.momentum = adaptive, momentum
    plan._call, plan.share = call, call.share
    plan.weight_decay, plan.coupled_decay = decay, coupled
    plan.directs = plan.direction is not None and call.gradients is None
    plan.rests = not isinstance(settings.lr, Tensor) and settings.lr <= FAINT
    plan.seeds = [group["seed"] if chain is None else key_of(group["seed"], chain) % SEEDS]
    plan.recipes = {}
    plan._read = operator.itemgetter(*(name for name in group if name not in NO_OPTIONS))
    plan._size, plan._others = len(group), plan._read(group)
    numbers = read_numbers(group)  # a tensor may change in place, and is the same object then
    if plan.captured:
        plan._numbers = numbers
        plan._known = {k: v for k, v in group.items() if k not in CAPTURED}
        return True
    plan._numbers = tuple(v.tolist() if isinstance(v, Tensor) else v for v in numbers)
    return True


# --- memory ---------------------------------------------------------------------------------


def watch(plan: Plan, given: Mapping[Tensor, Tensor] | None) -> None:
    """Remember all that has to stay as it is."""
    rows = {own: (b, row) for b in plan.buckets for row, own in enumerate(b.owners)}
    for own, here in zip(plan.parameters, plan._here, strict=True):
        bucket, row = rows.get(own, (None, 0))
        entry: dict[str, Any] = plan.state_of.get(own) or {}
        named = (STEP, FRICTION, *(WRITTEN if bucket is None else bucket.keys))
        kept = [(key, entry[key]) for key in named if key in entry]
        places = tuple((key, one, local_of(one), local_of(one).data_ptr()) for key, one in kept)
        shard = plan.shards[len(plan._watched)] if plan.shards else None
        moves = shard is not None and shard.moves  # then it is copied in each step
        where = None if moves else (here.data_ptr(), here.stride(), here.shape)
        plan._watched.append((own, here, own.dtype, where, entry, places, bucket, row))
        if bucket is not None:
            bucket.gradients[row] = own.grad if given is None else given.get(own)
    plan._versions = list(map(version_of, plan.parameters)) if plan._watches else []
    plan._attached = True


def holds(
    plan: Plan, group: dict[str, Any], state_of: StateOf, given: Mapping[Tensor, Tensor] | None
) -> bool:
    """Whether parameters, memory and state are as they were; the gradients are collected.

    Args:
        plan: of the group.
        group: the parameter group.
        state_of: the optimizer's state.
        given: gradients in the place of the parameters' own.
    """
    parameters, joint = group["params"], plan.constraint.joint
    if not plan._attached or group["constraint"] is not plan.constraint:
        return False
    if len(parameters) != len(plan._watched):
        return False
    some, addressed = not (joint and plan.active), True
    for parameter, watched in zip(parameters, plan._watched, strict=True):
        own, here, dtype, where, entry, places, bucket, row = watched
        if parameter is not own:
            return False
        slope = own.grad if given is None else given.get(own)
        if bucket is None:
            if slope is not None and own.numel():
                return False
            continue
        held = state_of.get(own, EMPTY)
        if held is not entry or own.dtype is not dtype:
            return False
        if here is own:
            if (own.data_ptr(), own.stride(), own.shape) != where:
                return False
        elif where is not None and local_of(own) is not here:
            return False
        for key, stored, local, pointer in places:
            if held.get(key) is not stored or local.data_ptr() != pointer:
                return False
        bucket.gradients[row] = slope
        if slope is None:
            if not joint:
                return False
        elif slope.layout is not torch.strided or not slope.is_floating_point():
            return False
        else:
            some = True
            if addressed:
                bucket.addresses[row] = slope.data_ptr()
                plain = slope.dtype is dtype and type(slope) in PLAIN and slope.is_cpu
                addressed = plain and slope.is_contiguous() and not slope.is_neg()
    plan.addressed = addressed and not plan.shards
    return some and (not plan._watches or list(map(version_of, parameters)) == plan._versions)


# --- code that is compiled --------------------------------------------------------------------


def all_stand(plans: Mapping[int, Plan], groups: Sequence[dict[str, Any]]) -> bool:
    """Whether the plans of the last step serve again, as far as code that is compiled can see.

    The compiler watches all that is asked here. Memory and versions of weights it does not see.
    """
    found = [plans.get(index) for index in range(len(groups))]
    pairs = zip(found, groups, strict=True)
    return all(plan is not None and stands(plan, group) for plan, group in pairs)


@torch.no_grad()
def repeat(plans: Mapping[int, Plan], groups: Sequence[dict[str, Any]]) -> None:
    """A step of the plans of the last one, with nothing but operations on tensors."""
    for plan in [plans[index] for index in range(len(groups))]:
        for bucket in plan.buckets:
            bucket.gradients = [owner.grad for owner in bucket.owners]
        plan.run()
        for bucket in plan.buckets:
            bucket.gradients = [None] * len(bucket.gradients)
            bucket.counts.add_(1)


def stands(plan: Plan, group: dict[str, Any]) -> bool:
    """``reads`` and ``holds`` in one, without a question where memory lies."""
    if not plan._attached or plan.rests or group["constraint"] is not plan.constraint:
        return False
    if any(bucket.fresh for bucket in plan.buckets):
        return False
    if len(group["params"]) != len(plan.parameters):
        return False
    moves = [own for bucket in plan.buckets for own in bucket.owners]
    for own, new in zip(plan.parameters, group["params"], strict=True):
        if own is not new or (own.grad is None) == any(own is other for other in moves):
            return False
    # The compiler lets all groups of an optimizer have an entry "capturable".
    if any(name not in plan._known and name not in CAPTURED for name in group):
        return False
    for name, old in plan._known.items():
        new, tensor = group[name], isinstance(old, Tensor)
        if new is not old and (tensor or isinstance(new, Tensor) or new != old):
            return False
    return True
