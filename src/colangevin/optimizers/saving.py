"""State dicts of plain values: what goes in, what is checked, what comes back."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import Optimizer

from colangevin.optimizers.buckets import MASTER, MOMENTUM, SLACK, SLACK_MOMENTUM, work_dtype
from colangevin.optimizers.noise import Noise
from colangevin.optimizers.placement import names, one_by_one


def pack(state_dict: dict[str, Any], noise: Noise) -> dict[str, Any]:
    """Replace constraints by plain values and add the generators.

    The result loads with ``torch.load(weights_only=True)``. It shares no memory with the
    optimizer: generators can only be copied, and a state dict of which a part runs on would
    be of no moment in the run.
    """
    for group in state_dict["param_groups"]:
        group["constraint"] = group["constraint"].describe()
    packed: dict[str, Any] = _copied(state_dict)
    return {**packed, "noise": noise.state_dict()}


def _copied(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.detach().clone()
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    return [_copied(item) for item in value] if isinstance(value, list) else value


def without_extras(state_dict: Mapping[str, Any]) -> dict[str, Any]:
    """What ``torch.optim.Optimizer.load_state_dict`` knows."""
    return {key: value for key, value in state_dict.items() if key != "noise"}


def check(state_dict: Mapping[str, Any], groups: Sequence[dict[str, Any]]) -> None:
    """Refuse a state dict of other constraints or other shapes, before anything changes.

    Raises:
        ValueError: naming the group and what differs.
    """
    if not {"state", "param_groups"} <= state_dict.keys():
        raise ValueError(f"no state dict of an optimizer: it has the keys {list(state_dict)[:5]}")
    saved_groups = state_dict["param_groups"]
    if len(saved_groups) != len(groups):
        raise ValueError(f"the state dict has {len(saved_groups)} groups, not {len(groups)}")
    for index, (saved, group) in enumerate(zip(saved_groups, groups, strict=True)):
        described, own = saved.get("constraint"), group["constraint"].describe()
        if not isinstance(described, Mapping) or not same(described, own):
            raise ValueError(
                f"group {index} of the state dict has the constraint {described!r}, "
                f"the optimizer has {own!r}"
            )
        _check_shapes(index, saved, group, state_dict["state"])


def _check_shapes(
    index: int, saved: Mapping[str, Any], group: dict[str, Any], states: Mapping[int, Any]
) -> None:
    if len(saved["params"]) != len(group["params"]):
        raise ValueError(
            f"group {index} of the state dict has {len(saved['params'])} parameters, "
            f"not {len(group['params'])}"
        )
    expected = _shapes(group)
    for key, parameter, name in zip(saved["params"], group["params"], names(group), strict=True):
        for entry, value in states.get(key, {}).items():
            allowed = expected[parameter].get(entry)
            if not isinstance(value, Tensor) or value.shape != allowed:
                shape = tuple(value.shape) if isinstance(value, Tensor) else value
                raise ValueError(
                    f"group {index} of the state dict has {entry} of shape {shape} for {name}, "
                    f"where the optimizer has {None if allowed is None else tuple(allowed)}"
                )


def _shapes(group: dict[str, Any]) -> dict[Tensor, dict[str, torch.Size]]:
    """The shape of every entry that the state of a group's parameters may have."""
    shapes = {p: {MOMENTUM: p.shape, MASTER: p.shape} for p in group["params"]}
    for bucket in one_by_one(group):
        owner = bucket.parameters[0]
        slack = bucket.read({}, momentum=True).slack
        if slack is not None:
            shape = owner.shape if bucket.constraint.elementwise else slack.shape
            shapes[owner].update({SLACK: shape, SLACK_MOMENTUM: shape})
    return shapes


def same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two descriptions of constraints agree."""
    if one.keys() != other.keys():
        return False
    return all(_equal(one[key], other[key]) for key in one)


def _equal(one: object, other: object) -> bool:
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        return one.shape == other.shape and torch.equal(one.cpu(), other.cpu().to(one.dtype))
    return type(one) is type(other) and one == other


def restore_dtypes(
    state_dict: Mapping[str, Any], groups: Sequence[dict[str, Any]], state: dict[Tensor, Any]
) -> None:
    """Give the state the dtype of the work, and storage of its own.

    torch casts state to the parameter's dtype, which would round float32 state of bf16
    parameters, and it shares memory with the state dict. Only half precision has a master:
    elsewhere it would go stale.
    """
    for saved, group in zip(state_dict["param_groups"], groups, strict=True):
        for key, parameter in zip(saved["params"], group["params"], strict=True):
            entry = state_dict["state"].get(key)
            if entry is None:
                continue
            dtype = work_dtype(parameter.dtype)
            state[parameter] = {
                name: value.detach().to(parameter.device, dtype, copy=True)
                for name, value in entry.items()
                if name != MASTER or dtype != parameter.dtype
            }


# --- hooks ------------------------------------------------------------------------------------


def run_pre_hooks(optimizer: Optimizer, state_dict: dict[str, Any]) -> dict[str, Any]:
    """What the hooks of ``register_load_state_dict_pre_hook`` make of a state dict."""
    state_dict = state_dict.copy()
    for hook in optimizer._optimizer_load_state_dict_pre_hooks.values():
        changed = hook(optimizer, state_dict)
        state_dict = state_dict if changed is None else changed
    return state_dict


def run_post_hooks(optimizer: Optimizer) -> None:
    """Call the hooks of ``register_load_state_dict_post_hook``."""
    for hook in optimizer._optimizer_load_state_dict_post_hooks.values():
        hook(optimizer)


@contextmanager
def without_hooks(optimizer: Optimizer) -> Iterator[None]:
    """Torch's part of loading is not the first that is done, nor the last."""
    names = ("_optimizer_load_state_dict_pre_hooks", "_optimizer_load_state_dict_post_hooks")
    hooks = {name: getattr(optimizer, name) for name in names}
    for name in names:
        setattr(optimizer, name, OrderedDict())
    try:
        yield
    finally:
        for name, found in hooks.items():
            setattr(optimizer, name, found)
