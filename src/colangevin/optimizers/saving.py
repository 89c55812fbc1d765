"""State dicts of plain values: what goes in, what is checked, what comes back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from colangevin.optimizers.noise import Noise


def pack(state_dict: dict[str, Any], noise: Noise) -> dict[str, Any]:
    """Replace constraints by plain values and add the generators.

    The result loads with ``torch.load(weights_only=True)``.
    """
    for group in state_dict["param_groups"]:
        group["constraint"] = group["constraint"].describe()
    return {**state_dict, "noise": noise.state_dict()}


def without_extras(state_dict: Mapping[str, Any]) -> dict[str, Any]:
    """What ``torch.optim.Optimizer.load_state_dict`` knows."""
    return {key: value for key, value in state_dict.items() if key != "noise"}


def check(state_dict: Mapping[str, Any], groups: Sequence[dict[str, Any]]) -> None:
    """Refuse a state dict of other constraints or other shapes, before anything changes.

    Raises:
        ValueError: naming the group and what differs.
    """
    saved_groups = state_dict["param_groups"]
    if len(saved_groups) != len(groups):
        raise ValueError(f"the state dict has {len(saved_groups)} groups, not {len(groups)}")
    for index, (saved, group) in enumerate(zip(saved_groups, groups, strict=True)):
        described, own = saved.get("constraint"), group["constraint"].describe()
        if not isinstance(described, Mapping) or not _same(described, own):
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
    for key, parameter in zip(saved["params"], group["params"], strict=True):
        buffer = states.get(key, {}).get("momentum_buffer")
        if buffer is not None and buffer.shape != parameter.shape:
            raise ValueError(
                f"group {index} of the state dict holds a parameter of shape "
                f"{tuple(buffer.shape)}, the optimizer one of {tuple(parameter.shape)}"
            )


def _same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
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
    """Give the state its saved dtype back, and storage of its own.

    torch casts state to the parameter's dtype, which would round float32 state of bf16
    parameters, and it shares memory with the state dict.
    """
    for saved, group in zip(state_dict["param_groups"], groups, strict=True):
        for key, parameter in zip(saved["params"], group["params"], strict=True):
            entry = state_dict["state"].get(key)
            if entry is None:
                continue
            state[parameter] = {
                name: value.detach().to(parameter.device, copy=True)
                if isinstance(value, Tensor)
                else value
                for name, value in entry.items()
            }
