"""Groups with an adaptive thermostat: their options, and their friction variable.

The group's option ``friction`` is the initial value of the friction variable ξ, and no step
changes it. ξ itself is state: the entry ``friction`` of every parameter of the group is the same
tensor without dimensions, which a step writes in place.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
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
FRICTION = "friction"
"""The entry of ξ in the state of a parameter."""


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


def check_initial(name: str, value: object) -> float:
    """The initial ξ of a group, which may have any sign.

    Raises:
        ValueError, TypeError: for what is no finite number.

    Example:
        >>> check_initial("friction", -0.5)
        -0.5
    """
    number = checks.number(name, value)
    if math.isinf(number):
        raise ValueError(f"{name} must be finite with the thermostat 'adaptive', got {number}")
    return number


def dynamics(group: Mapping[str, Any]) -> AdaptiveDynamics:
    """The dynamics of an adaptive group as its options stand now."""
    if group["momentum"] is not None:
        raise ValueError(
            f"momentum={group['momentum']} was set in a group with thermostat 'adaptive'; a "
            "scheduler that cycles the momentum needs cycle_momentum=False here"
        )
    check_initial("friction", group["friction"])
    return AdaptiveDynamics(
        checks.non_negative("lr", group["lr"]),
        checks.non_negative("temperature", group["temperature"]),
        checks.non_negative("coupling", group["coupling"]),
        checks.non_negative("driving_noise", group["driving_noise"]),
        parse(group["scheme"], group["delayed_gradient"]),
    )


# --- the friction variable ----------------------------------------------------------------


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
