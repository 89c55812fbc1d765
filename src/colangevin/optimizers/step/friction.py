"""The friction variable ξ of a group with an adaptive thermostat.

The group's option ``friction`` is its initial value, and no step changes it. ξ itself is state: the
entry ``friction`` of every parameter of the group is the same tensor without dimensions, which a
step writes in place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

FRICTION = "friction"
"""The entry of ξ in the state of a parameter."""


def friction_of(group: Mapping[str, Any], state_of: Mapping[Tensor, Mapping[str, Any]]) -> float:
    """ξ of an adaptive group as it is now, or its initial value while there is no state.

    Example:
        >>> weight = torch.zeros(1)
        >>> friction_of({"params": [weight], "friction": 0.5}, {weight: {}})
        0.5
    """
    found = _first([state_of.get(parameter, {}) for parameter in group["params"]])
    return float(group["friction"] if found is None else found)


def share_friction(entries: Sequence[dict[str, Any]], initial: Any, device: torch.device) -> Tensor:
    """Let the state of all parameters of a group have the same ξ.

    Args:
        entries: the state of each parameter; the first that has a ξ counts.
        initial: where ξ begins if none has one; one number per member in an ensemble.
        device: where it lies, in float64 wherever the device has it.

    Raises:
        ValueError: if somebody has put something of another shape there.

    Example:
        >>> entries = [{}, {"friction": torch.tensor(0.5)}]
        >>> friction = share_friction(entries, 0.0, torch.device("cpu"))
        >>> friction, all(entry["friction"] is friction for entry in entries)
        (tensor(0.5000, dtype=torch.float64), True)
    """
    start, found = torch.as_tensor(initial, dtype=torch.float64), _first(entries)
    value = start if found is None else torch.as_tensor(found)
    if value.shape != start.shape:
        raise ValueError(
            f"the state's friction must have the shape {tuple(start.shape)}, got "
            f"{tuple(value.shape)}"
        )
    friction = value.to(device, torch.float32 if device.type == "mps" else torch.float64)
    for entry in entries:
        entry[FRICTION] = friction
    return friction


def _first(entries: Sequence[Mapping[str, Any]]) -> Any:
    return next((entry[FRICTION] for entry in entries if FRICTION in entry), None)
