"""Checking parameters against their constraint, and putting them on the manifold."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor

from colangevin.constraints import Constraint
from colangevin.constraints.base import tolerance_for
from colangevin.errors import ConstraintError
from colangevin.optimizers.buckets import SLACK, Bucket, StateOf, make_buckets, work_dtype

Placement: TypeAlias = "tuple[Bucket, Tensor]"
"""A bucket, and the position that its parameters are to take."""


def names(group: dict[str, Any]) -> list[str]:
    """The parameters' names, or their places in the group."""
    given = group.get("names") or group.get("param_names")
    if given is not None and len(given) == len(group["params"]):
        return list(given)
    return [
        f"parameter {index} of shape {tuple(parameter.shape)}"
        for index, parameter in enumerate(group["params"])
    ]


def refuse_duplicates(group: dict[str, Any], groups: Sequence[dict[str, Any]]) -> None:
    """Refuse a new group that repeats a parameter; its ``params`` become a list.

    Raises:
        ValueError: naming the parameter and the group that has it already.
    """
    params = group["params"]
    if isinstance(params, set):
        return  # torch refuses it, for its lack of an order
    params = group["params"] = [params] if isinstance(params, Tensor) else list(params)
    given = [item[0] if isinstance(item, tuple) else None for item in params]
    tensors = [item[1] if isinstance(item, tuple) else item for item in params]
    if not all(isinstance(tensor, Tensor) for tensor in tensors):
        return  # so does torch, for what it is
    seen = {id(p): index for index, other in enumerate(groups) for p in other["params"]}
    called = given if None not in given else names({**group, "params": tensors})
    for tensor, name in zip(tensors, called, strict=True):
        if id(tensor) in seen:
            raise ValueError(
                f"{name} of group {len(groups)} appears in group {seen[id(tensor)]} already; "
                "a parameter belongs to one group, once"
            )
        seen[id(tensor)] = len(groups)


def of_group(group: dict[str, Any], strict: bool) -> list[Placement]:
    """What must move for the group's parameters to be on the manifold; changes nothing.

    Raises:
        ConstraintError: if the constraint cannot hold for a parameter, or if ``strict`` and
            a parameter is off the manifold.
        TypeError: for parameters that are not real floating-point tensors.
    """
    for parameter, name in zip(group["params"], names(group), strict=True):
        if not parameter.is_floating_point():
            raise TypeError(f"{name} must be a real floating-point tensor, got {parameter.dtype}")
        if parameter.layout != torch.strided:
            raise TypeError(f"{name} must be a dense tensor, got {parameter.layout}")
    placements = []
    for bucket in one_by_one(group):
        try:
            position = _place(bucket, strict)
        except ConstraintError as error:
            raise ConstraintError(f"{bucket.name}: {error}") from error
        if position is not None:
            placements.append((bucket, position))
    return placements


def one_by_one(group: dict[str, Any]) -> list[Bucket]:
    """One bucket a parameter, or one for the group if its constraint is joint."""
    constraint: Constraint = group["constraint"]
    params, called = group["params"], names(group)
    if constraint.joint:
        return make_buckets(constraint, params, called)
    buckets = []
    for parameter, name in zip(params, called, strict=True):
        if parameter.numel() == 0:
            continue
        try:
            buckets.extend(make_buckets(constraint, [parameter], [name]))
        except ConstraintError as error:
            raise ConstraintError(f"{name}: {error}") from error
    return buckets


@torch.no_grad()
def _place(bucket: Bucket, strict: bool) -> Tensor | None:
    """The new position, or None where the parameter is on the manifold already."""
    dtype = bucket.parameters[0].dtype
    position = bucket.gather(bucket.parameters).detach()
    if position.numel() == 0:
        return None
    half = dtype != work_dtype(dtype)
    # Half precision cannot be nearer to a manifold than its rounding, eps/2 a weight.
    allowed = 2 * torch.finfo(dtype).eps if half else 100 * tolerance_for(dtype)
    excess = bucket.constraint.excess(position)
    if not math.isfinite(excess):
        raise ConstraintError("the weight is not finite")
    if excess <= allowed:
        return None
    if strict:
        raise ConstraintError(
            f"strict=True, but the weight is off the manifold: relative violation {excess:.3g}, "
            f"allowed {allowed:.3g}; use constrain_ first"
        )
    return bucket.constraint.place(position)


@torch.no_grad()
def slacks(
    group: dict[str, Any], written: Sequence[Tensor], state_of: StateOf
) -> list[tuple[Tensor, Tensor]]:
    """Slack that no longer belongs to the weights that were written to, and what does.

    Returns:
        The parameter that keeps a slack, and its new slack.
    """
    found = []
    ours = {id(parameter) for parameter in written}
    for bucket in one_by_one(group) if written else []:
        owner = bucket.parameters[0]
        if SLACK not in state_of.get(owner, {}) or not ours & {id(p) for p in bucket.parameters}:
            continue
        state = bucket.read(state_of, momentum=False)
        assert state.slack is not None
        allowed = 100 * tolerance_for(state.position.dtype)
        off = bucket.constraint.residual(state).abs() > allowed
        if not bool(off.any()):
            continue
        size = bucket.constraint.lift(state.position)
        assert size is not None
        lifted = torch.copysign(size, state.slack)
        slack = torch.where(off, lifted, state.slack) if off.shape == lifted.shape else lifted
        found.append((owner, slack.reshape(state_of[owner][SLACK].shape)))
    return found


def commit(placements: Iterable[Placement], state_of: StateOf) -> None:
    """Move what ``of_group`` found off the manifold."""
    for bucket, position in placements:
        bucket.write_position(state_of, position)


def with_gradient(group: dict[str, Any]) -> list[int]:
    """Indices of the parameters that take part in a step.

    A joint constraint moves all of its parameters as soon as one of them has a gradient.

    Raises:
        TypeError: for sparse gradients.
    """
    active = []
    for index, parameter in enumerate(group["params"]):
        gradient = parameter.grad
        if gradient is None or parameter.numel() == 0:
            continue
        if gradient.layout is not torch.strided or not gradient.is_floating_point():
            _refuse_gradient(names(group)[index], gradient)
        active.append(index)
    return list(range(len(group["params"]))) if active and group["constraint"].joint else active


def _refuse_gradient(name: str, gradient: Tensor) -> None:
    if gradient.layout is not torch.strided:
        raise TypeError(f"{name} has a sparse gradient; CoLA takes dense ones only")
    raise TypeError(
        f"{name} has a gradient of type {gradient.dtype}; CoLA takes real floating-point ones"
    )
