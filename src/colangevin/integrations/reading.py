"""What an optimizer can tell while it trains, as plain numbers by name."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

from torch.optim.optimizer import Optimizer

from colangevin.constraints import Constraint, Unconstrained
from colangevin.diagnostics import friction_variable, kinetic_temperature
from colangevin.optimizers import CoLA, Multirate

ILLEGAL = re.compile(r"[^-\w.]")
"""What TensorBoard does not take in the name of a number."""


def unwrap(optimizer: Any) -> Any:
    """The optimizer itself, without the wrappers of frameworks.

    Accelerate and Lightning put an optimizer into a wrapper, which has no ``violation()``, or one
    that reads an old copy. Both keep the optimizer under the name ``optimizer``.

    Example:
        >>> import torch
        >>> optimizer = CoLA([torch.nn.Parameter(torch.zeros(2))], lr=0.1)
        >>> unwrap(optimizer) is optimizer
        True
    """
    while isinstance(inner := getattr(optimizer, "optimizer", None), Optimizer):
        optimizer = inner
    return optimizer


def parts_of(optimizer: Any) -> Iterator[tuple[str, CoLA]]:
    """Every ``CoLA`` in an optimizer: itself, or the parts of a ``Multirate`` with their rate."""
    optimizer = unwrap(optimizer)
    if isinstance(optimizer, CoLA):
        yield "", optimizer
    elif isinstance(optimizer, Multirate):
        for rate in ("fast", "slow"):
            for inner, part in parts_of(getattr(optimizer, rate)):
                yield f"{rate}.{inner}", part


def release(optimizer: Any) -> None:
    """Give the slow parameters of a ``Multirate`` their ``requires_grad`` back; others are left.

    A loop that a framework runs may end in the middle of a cycle, where they are frozen.

    Example:
        >>> import torch
        >>> release(torch.optim.SGD([torch.nn.Parameter(torch.zeros(2))], lr=0.1))
    """
    optimizer = unwrap(optimizer)
    if isinstance(optimizer, Multirate):
        optimizer.release()


def readings(optimizer: Any) -> dict[str, float]:
    """The numbers to watch, for each parameter group: "quantity/group".

    - "violation": max |g| relative to the constraint's scale, of constrained groups.
    - "at_bound": the share of weights, or rows, at their bound, of groups that have one.
    - "temperature": τ as it is set now.
    - "kinetic_temperature": pᵀp/N, of groups with momenta that have moved. One reading scatters.
    - "friction": γ, or the friction variable of an adaptive thermostat, of underdamped groups.

    Args:
        optimizer: a ``CoLA`` or one of its methods, a ``Multirate`` with such parts, or a
            framework's wrapper of one.

    Raises:
        TypeError: if there is none in it.

    Example:
        >>> import torch, colangevin as cl
        >>> groups = cl.parameter_groups(torch.nn.Linear(2, 2), {"weight": cl.Orthogonal()})
        >>> numbers = readings(cl.CoLA(groups, step_size=0.1, friction=2.0, temperature=1e-4))
        >>> sorted(numbers)[:3]
        ['friction/unconstrained', 'friction/weight', 'temperature/unconstrained']
        >>> numbers["friction/weight"], numbers["violation/weight"] < 1e-6
        (2.0, True)
    """
    found: dict[str, float] = {}
    parts = list(parts_of(optimizer))
    if not parts:
        kind = type(unwrap(optimizer)).__name__
        raise TypeError(f"optimizer must be a CoLA or a Multirate of them, got {kind}")
    for prefix, part in parts:
        names = _names(prefix, part)
        readers = (_temperatures, _kinetic, _frictions)
        for values in (*_violations(part), *(reader(part) for reader in readers)):
            quantity, *numbers = values
            for name, number in zip(names, numbers, strict=True):
                if number is not None:
                    found[f"{quantity}/{name}"] = float(number)
    return found


def _names(prefix: str, optimizer: CoLA) -> list[str]:
    """A name for each group, of characters that every logger takes; equal ones are numbered."""
    found: list[str] = []
    for index, group in enumerate(optimizer.param_groups):
        name = prefix + ILLEGAL.sub("_", str(group.get("name") or f"group{index}"))
        found.append(f"{name}.{index}" if name in found else name)
    return found


def _violations(optimizer: CoLA) -> list[list[Any]]:
    groups = optimizer.param_groups
    free = [isinstance(group["constraint"], Unconstrained) for group in groups]
    kinds = [type(group["constraint"]) for group in groups]
    open_ended = [kind.at_bound is Constraint.at_bound for kind in kinds]
    found = optimizer.violation()
    return [
        ["violation", *(None if f else v.residual for f, v in zip(free, found, strict=True))],
        ["at_bound", *(None if f else v.at_bound for f, v in zip(open_ended, found, strict=True))],
    ]


def _temperatures(optimizer: CoLA) -> list[Any]:
    return ["temperature", *(group["temperature"] for group in optimizer.param_groups)]


def _kinetic(optimizer: CoLA) -> list[Any]:
    return ["kinetic_temperature", *kinetic_temperature(optimizer)]


def _frictions(optimizer: CoLA) -> list[Any]:
    pairs = zip(optimizer.param_groups, friction_variable(optimizer), strict=True)
    return ["friction", *(_friction(group) if own is None else own for group, own in pairs)]


def _friction(group: dict[str, Any]) -> float | None:
    """γ, from momentum = e^{−γh} with lr = h² where that is what the group has."""
    if group["friction"] is not None:
        return None if math.isinf(group["friction"]) else float(group["friction"])
    momentum, lr = float(group["momentum"]), float(group["lr"])
    return -math.log(momentum) / math.sqrt(lr) if momentum > 0.0 and lr > 0.0 else None
