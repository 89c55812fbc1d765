"""State dicts of plain values: what goes in, what is checked, what comes back."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.optim.optimizer import Optimizer

from colangevin.constraints.base import same_values
from colangevin.constraints.inflection import FOUND, RADIUS
from colangevin.optimizers.option_checks import check_group
from colangevin.optimizers.step.friction import FRICTION
from colangevin.optimizers.step.layout import (
    MASTER,
    MOMENTUM,
    REMEMBERED,
    SINCE,
    SLACK,
    SLACK_MOMENTUM,
    STEP,
    WRITTEN,
    StateOf,
    work_dtype,
)
from colangevin.optimizers.step.place import names_of

if TYPE_CHECKING:
    from colangevin.optimizers.step.plan import Plan

DESCRIBED = ("constraint", "direction")
"""Options that are objects: a state dict has plain values in their place."""


def pack(optimizer: Optimizer, state_dict: dict[str, Any]) -> dict[str, Any]:
    """Replace constraints by plain values, and share no memory with the optimizer.

    The result loads with ``torch.load(weights_only=True)``. If it shared memory, later steps
    would change a part of it.
    """
    groups = [
        {**group, **{name: group[name].describe() for name in DESCRIBED}}
        for group in state_dict["param_groups"]
    ]
    packed: dict[str, Any] = copied({**state_dict, "param_groups": groups})
    return packed


def copied(value: Any) -> Any:
    """A copy of nested containers and their tensors."""
    if isinstance(value, Tensor):
        return value.detach().clone()
    if isinstance(value, dict):
        return {key: copied(item) for key, item in value.items()}
    return [copied(item) for item in value] if isinstance(value, list) else value


@contextmanager
def looked_at(optimizer: Optimizer, look: Callable[[dict[str, Any]], Any]) -> Iterator[None]:
    """Within it ``look`` gets what is loaded, after the user's hooks and before any change.

    If it returns something, torch continues with that. The hook that is registered last runs last.
    """
    hook = optimizer.register_load_state_dict_pre_hook(lambda _, state_dict: look(state_dict))
    try:
        yield
    finally:
        hook.remove()


@contextmanager
def packed_by(optimizer: Optimizer, pack: Callable[[Any, dict[str, Any]], Any]) -> Iterator[None]:
    """Within it a state dict is what ``pack`` makes of torch's, before the user's hooks see it."""
    hook = optimizer.register_state_dict_post_hook(pack, prepend=True)
    try:
        yield
    finally:
        hook.remove()


def restored(
    state: dict[str, Any], loaded: Mapping[str, Any], own: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    """What torch has made of a state dict, with the constraints and the dtypes of the work."""
    groups = [
        {**new, **{name: old[name] for name in DESCRIBED}}
        for new, old in zip(state["param_groups"], own, strict=True)
    ]
    for group in groups:
        if isinstance(group["friction"], Tensor):  # ξ itself in states of before 0.1.0
            group["friction"] = float(group["friction"])
    entries = defaultdict(dict, {**state["state"], **_entries(loaded, groups)})
    return {**state, "state": entries, "param_groups": groups}


def _entries(loaded: Mapping[str, Any], groups: Sequence[dict[str, Any]]) -> dict[Tensor, Any]:
    """The state in the dtype of the work, with memory of its own.

    torch casts state to the parameter's dtype, which would round float32 state of bf16
    parameters, and it shares memory with the state dict. Only half precision has a master:
    elsewhere it would go stale.
    """
    found: dict[Tensor, Any] = {}
    # A step reads the counts. On an accelerator, where a load may put them, it would wait for it.
    kept_on = dict.fromkeys((STEP, REMEMBERED + SINCE), torch.device("cpu"))
    for saved, group in zip(loaded["param_groups"], groups, strict=True):
        for key, parameter in zip(saved["params"], group["params"], strict=True):
            entry = loaded["state"].get(key)
            if entry is None:
                continue
            dtype = work_dtype(parameter.dtype)
            found[parameter] = {
                name: value.detach().to(parameter.device, dtype, copy=True)
                if name in WRITTEN or (name.startswith(REMEMBERED) and value.dim())
                else value.detach().to(kept_on.get(name, value.device), copy=True)
                for name, value in entry.items()
                if name != MASTER or dtype != parameter.dtype
            }
    return found


# --- checks ---------------------------------------------------------------------------------


def checked_form(
    state_dict: Any, groups: Sequence[dict[str, Any]]
) -> tuple[list[dict[str, Any]], Mapping[Any, Any]]:
    """Groups and state of a state dict whose groups have as many parameters as the optimizer's."""
    keys = state_dict.keys() if isinstance(state_dict, Mapping) else {}
    missing = sorted({"state", "param_groups"} - set(keys))
    if missing:
        found = f"the keys {list(keys)[:5]}" if isinstance(state_dict, Mapping) else state_dict
        old = {"fast", "slow", "period"} <= set(keys)  # of a Multirate
        why = "; it was saved by an earlier version, whose form is not read any more" if old else ""
        raise ValueError(
            f"no state dict of an optimizer: it lacks {', '.join(missing)} and has {found}{why}"
        )
    saved_groups, states = state_dict["param_groups"], state_dict["state"]
    if not isinstance(saved_groups, list) or not isinstance(states, Mapping):
        raise ValueError("no state dict of an optimizer: param_groups must be a list, state a dict")
    if len(saved_groups) != len(groups):
        raise ValueError(f"the state dict has {len(saved_groups)} groups, not {len(groups)}")
    for index, (saved, group) in enumerate(zip(saved_groups, groups, strict=True)):
        where = f"group {index} of the state dict"
        if not isinstance(saved, Mapping) or not isinstance(saved.get("params"), list):
            raise ValueError(f"{where} is damaged: {type(saved).__name__}")
        size, own = len(saved["params"]), len(group["params"])
        if size != own:
            raise ValueError(f"{where} has {size} parameters, not {own}")
        for key, name in zip(saved["params"], names_of(group), strict=True):
            if not isinstance(states.get(key), Mapping | None):
                raise ValueError(f"{where} has {type(states[key]).__name__} as the state of {name}")
    return saved_groups, states


def check(
    state_dict: Mapping[str, Any],
    groups: Sequence[dict[str, Any]],
    plan_of: Callable[..., Plan],
    state_of: StateOf,
) -> None:
    """Refuse a state dict of other constraints or shapes, or with damaged values."""
    saved_groups, states = checked_form(state_dict, groups)
    for index, (saved, group) in enumerate(zip(saved_groups, groups, strict=True)):
        where = f"group {index} of the state dict"
        for what in DESCRIBED:
            _check_described(where, what, saved.get(what), group[what].describe())
        try:
            check_group({**saved, **{what: group[what] for what in DESCRIBED}})
        except (ValueError, TypeError) as error:
            raise type(error)(f"{where}: {error}") from error
        # Geometries are those of the saved radii: where one was found there may be a slack.
        pairs = zip(saved["params"], group["params"], strict=True)
        kept = {p: _radius(states.get(key) or {}, state_of.get(p, {})) for key, p in pairs}
        expected = _shapes(plan_of(index, kept), state_of)
        for key, p, name in zip(saved["params"], group["params"], names_of(group), strict=True):
            _check_entry(where, name, states.get(key) or {}, expected[p])


def _radius(saved: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """What a geometry has kept of a parameter: as it was saved, if it has the right shape."""
    found = {key: own[key] for key in FOUND if key in own}
    radius = saved.get(RADIUS)
    if RADIUS in own and isinstance(radius, Tensor) and radius.shape == own[RADIUS].shape:
        found[RADIUS] = radius
    return found


def _check_described(where: str, what: str, described: object, own: Mapping[str, Any]) -> None:
    if not isinstance(described, Mapping):
        raise ValueError(
            f"{where} has no {what}: it is of another optimizer; hand_over passes momenta from SGD"
        )
    if not same_values(described, own):
        raise ValueError(f"{where} has the {what} {described!r}, the optimizer has {own!r}")


def _check_entry(
    where: str, name: str, entry: Mapping[str, Any], expected: Mapping[str, torch.Size]
) -> None:
    for field, value in entry.items():
        allowed = expected.get(field)
        if not isinstance(value, Tensor) or value.shape != allowed:
            shape = tuple(value.shape) if isinstance(value, Tensor) else value
            raise ValueError(
                f"{where} has {field} of shape {shape} for {name}, where the optimizer has "
                f"{None if allowed is None else tuple(allowed)}"
            )
    if entry.keys() <= {*FOUND}:
        return  # frozen, so it has made no step
    steps = float(entry[STEP]) if STEP in entry else math.nan
    if not (steps >= 0.0 and steps == int(steps)):
        raise ValueError(f"{where} has step {steps} for {name}; it must be a count")


def _shapes(plan: Plan, state_of: StateOf) -> dict[Tensor, dict[str, torch.Size]]:
    """The shape of every entry that the state of a group's parameters may have.

    What a geometry keeps of its own for a parameter is there from the beginning.
    """
    shapes = {
        p: {
            **{name: value.shape for name, value in state_of.get(p, {}).items()},
            MOMENTUM: p.shape,
            MASTER: p.shape,
            **dict.fromkeys(plan.remembered, p.shape),
            REMEMBERED + SINCE: torch.Size([]),
            STEP: torch.Size([]),
            FRICTION: torch.Size([]),
        }
        for p in plan.parameters
    }
    for _, bucket in plan.singles(range(len(plan.parameters))):
        owner = bucket.owners[0]
        if bucket.shards:  # made with the optimizer, as all of its state
            kept = {SLACK_MOMENTUM: shapes[owner][SLACK]} if SLACK in shapes[owner] else {}
            shapes[owner].update(kept)
            continue
        slack = bucket.constraint.lift(bucket.gather(bucket.parameters))
        if slack is not None:
            shape = owner.shape if bucket.constraint.elementwise else slack.shape
            shapes[owner].update({SLACK: shape, SLACK_MOMENTUM: shape})
    return shapes
