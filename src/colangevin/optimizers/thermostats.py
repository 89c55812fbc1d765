"""The options of groups with an adaptive thermostat.

The friction variable ξ is the group's ``friction``: a tensor without dimensions, one per group,
saved with the other options in the state dict. What a user sets there is its initial value.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from colangevin import checks
from colangevin.integrators.adaptive import AdaptiveDynamics
from colangevin.integrators.scheme import parse

THERMOSTATS = ("langevin", "adaptive")
WORDS = {"langevin": "OBA", "adaptive": "BACDEDCAB"}
"""The scheme of a group that names none."""
COUPLING = 0.1
DRIVING_NOISE = 0.01


def is_adaptive(group: Mapping[str, Any]) -> bool:
    """Whether a group's friction is a variable."""
    return bool(group["thermostat"] == "adaptive")


# --- options ------------------------------------------------------------------------------


def scheme_of(thermostat: str, own: object, inherited: object, delayed: bool) -> str:
    """The group's word: its own, the optimizer's if it fits the thermostat, or the usual one.

    Raises:
        ValueError: if the group's own word belongs to the other thermostat.

    Example:
        >>> scheme_of("adaptive", None, "OBA", False)
        'BACDEDCAB'
    """
    wanted = thermostat == "adaptive"
    for word in (own, inherited):
        if word is None:
            continue
        if parse(str(word), delayed).adaptive == wanted:
            return str(word)
        if word is own:
            raise ValueError(
                f"scheme {word!r} does not go with thermostat {thermostat!r}, whose words are "
                f"such as {WORDS[thermostat]!r}"
            )
    return WORDS[thermostat]


def options(
    thermostat: str, own: Mapping[str, Any], inherited: Mapping[str, Any]
) -> dict[str, float | None]:
    """Check ``coupling`` and ``driving_noise``; a Langevin group has neither.

    Raises:
        ValueError, TypeError: naming the option, its value and what is allowed.

    Example:
        >>> options("adaptive", {"coupling": 0.05}, {})
        {'coupling': 0.05, 'driving_noise': 0.01}
    """
    names = {"coupling": COUPLING, "driving_noise": DRIVING_NOISE}
    if thermostat == "langevin":
        for name in names:
            if own.get(name) is not None:
                raise ValueError(
                    f"{name} is an option of thermostat 'adaptive', got {own[name]!r} for a "
                    "group with thermostat 'langevin'"
                )
        return dict.fromkeys(names)
    values = {}
    for name, usual in names.items():
        given = own.get(name) if own.get(name) is not None else inherited.get(name)
        values[name] = checks.non_negative(name, usual if given is None else given)
    return dict(values)


def initial_friction(damping_name: str, damping: object, step_size: float) -> float:
    """ξ at the start, from ``friction`` or ``momentum`` = e^{−ξh}; 0 where neither is given.

    Raises:
        ValueError: for an infinite friction or a momentum of 0: there is nothing to adapt then.

    Example:
        >>> initial_friction("friction", None, 0.1)
        0.0
    """
    if damping is None:
        return 0.0
    value = checks.number(damping_name, damping)
    if damping_name == "momentum":
        if not 0.0 < value <= 1.0:
            raise ValueError(
                "thermostat 'adaptive' needs a momentum to control: momentum must be above 0 and "
                f"at most 1, got {value}"
            )
        return -math.log(value) / step_size
    if not math.isfinite(value):
        raise ValueError(
            "thermostat 'adaptive' needs a momentum to control: friction, the initial value of "
            f"its friction variable, must be finite, got {value}"
        )
    return value


def dynamics(group: Mapping[str, Any]) -> AdaptiveDynamics:
    """The dynamics of an adaptive group as its options stand now."""
    if group["momentum"] is not None:
        raise ValueError(
            f"momentum={group['momentum']} was set in a group with thermostat 'adaptive'; a "
            "scheduler that cycles the momentum needs cycle_momentum=False here"
        )
    return AdaptiveDynamics(
        checks.non_negative("lr", group["lr"]),
        checks.non_negative("temperature", group["temperature"]),
        checks.non_negative("coupling", group["coupling"]),
        checks.non_negative("driving_noise", group["driving_noise"]),
        parse(group["scheme"], group["delayed_gradient"]),
    )


def friction_variable(group: Mapping[str, Any], device: torch.device) -> Tensor:
    """ξ on a device, in float64 wherever the device has it."""
    dtype = torch.float32 if device.type == "mps" else torch.float64
    return torch.as_tensor(group["friction"], dtype=dtype).to(device)
