"""Checking parameters against their constraint, and putting them on the manifold."""

from __future__ import annotations

import itertools
import logging
import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from torch import Tensor
from torch.nn.parameter import is_lazy

from colangevin.constraints import Constraint, State
from colangevin.constraints.base import tolerance_for
from colangevin.errors import ConstraintError
from colangevin.optimizers.step.layout import HALF, work_dtype
from colangevin.torch_compat import is_sharded

if TYPE_CHECKING:
    from colangevin.optimizers.step.bucket import Bucket

LOGGER = logging.getLogger("colangevin")


Placement: TypeAlias = "tuple[Bucket, Tensor, float]"
"""A bucket of one parameter, or of one joint constraint, where it is to be put, and how far that is
relative to the weights."""


def names_of(group: dict[str, Any]) -> list[str]:
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
        return  # torch refuses it, because a set has no order
    params = group["params"] = [params] if isinstance(params, Tensor) else list(params)
    given = [item[0] if isinstance(item, tuple) else None for item in params]
    tensors = [item[1] if isinstance(item, tuple) else item for item in params]
    if not all(isinstance(tensor, Tensor) for tensor in tensors):
        return  # torch refuses what is no tensor
    _refuse_lazy(tensors)
    seen = {id(p): f"group {i}" for i, other in enumerate(groups) for p in other["params"]}
    memory = [
        (p, f"{name} of group {i}")
        for i, other in enumerate(groups)
        for p, name in zip(other["params"], names_of(other), strict=True)
    ]
    called = given if None not in given else names_of({**group, "params": tensors})
    for tensor, name in zip(tensors, called, strict=True):
        if id(tensor) in seen:
            raise ValueError(
                f"{name} of group {len(groups)} appears in {seen[id(tensor)]} already; "
                "a parameter belongs to one group, once"
            )
        seen[id(tensor)] = f"group {len(groups)}"
        memory.append((tensor, f"{name} of group {len(groups)}"))
    _refuse_shared_memory(memory)


def _refuse_lazy(parameters: Iterable[Tensor]) -> None:
    """Refuse what has no shape yet."""
    if any(is_lazy(parameter) for parameter in parameters):
        raise TypeError(
            "a parameter has no shape yet, as those of nn.LazyLinear before the first call: run "
            "the model once before"
        )


def _refuse_shared_memory(named: Sequence[tuple[Tensor, str]]) -> None:
    """Refuse parameters that lie over each other; side by side in one memory they may be."""
    extents = sorted(
        (str(tensor.device), tensor.data_ptr(), tensor.numel() * tensor.element_size(), name)
        for tensor, name in named
        if tensor.numel() and tensor.layout == torch.strided and tensor.is_contiguous()
    )
    for (device, place, size, name), (other, start, _, called) in itertools.pairwise(extents):
        if device == other and place and start < place + size:
            raise ValueError(
                f"{called} shares its memory with {name}; tie weights by using one Parameter in "
                "both places"
            )


def check_tensors(group: dict[str, Any]) -> None:
    """Refuse parameters that are no real, dense, floating-point tensors.

    Raises:
        TypeError: naming the parameter.
    """
    _refuse_lazy(group["params"])
    for parameter, name in zip(group["params"], names_of(group), strict=True):
        if not parameter.is_floating_point():
            raise TypeError(f"{name} must be a real floating-point tensor, got {parameter.dtype}")
        if parameter.layout != torch.strided:
            raise TypeError(f"{name} must be a dense tensor, got {parameter.layout}")
        _check_parts(parameter, name, group["constraint"])


def _check_parts(parameter: Any, name: str, constraint: Constraint) -> None:
    """Refuse parts of a parameter that cannot be put together."""
    flat = getattr(parameter, "_is_flat_param", False) or hasattr(parameter, "_fsdp_flattened")
    if flat and not constraint.elementwise:
        raise TypeError(
            f"{name} is a part of a flat parameter of FullyShardedDataParallel, which has lost its "
            f"shape, so {type(constraint).__name__} cannot hold; use fully_shard (FSDP2)"
        )
    if is_sharded(parameter) and any(place.is_partial() for place in parameter.placements):
        raise TypeError(
            f"{name} has the placements {parameter.placements}; the weights must not be a sum over "
            "processes"
        )


@torch.no_grad()
def placement_of(bucket: Bucket, strict: bool) -> Placement | None:
    """Where a bucket must be put; None where it is on the manifold already.

    Raises:
        ConstraintError: if the constraint cannot hold, or if ``strict`` and it is off the manifold.
    """
    dtype, whole = bucket.parameters[0].dtype, bucket.whole()
    position, constraint = whole.gather(whole.parameters).detach(), whole.constraint
    if position.numel() == 0:
        return None
    try:
        for own in {dtype, work_dtype(dtype)}:
            constraint.check_dtype(own)
        # Half precision cannot be nearer to a manifold than its rounding, eps/2 per weight.
        half = dtype in HALF
        allowed = 2 * torch.finfo(dtype).eps if half else 100 * tolerance_for(dtype)
        excess = constraint.excess(position)
        if not math.isfinite(excess):
            raise ConstraintError("the weight is not finite")
        if excess <= allowed:
            return None
        if strict:
            raise ConstraintError(
                f"strict=True, but the weight is off the manifold: relative violation "
                f"{excess:.3g}, allowed {allowed:.3g}; use constrain_ first"
            )
        placed = constraint.place(position)
    except ConstraintError as error:
        raise ConstraintError(f"{bucket.name}: {error}") from error
    size = float(position.abs().max())
    distance = float((placed - position).abs().max()) / (size or 1.0)
    return bucket, bucket.of_whole(placed, whole), distance


_announcing = True


@contextmanager
def unannounced() -> Iterator[None]:
    """Within it nothing is logged: hundreds of members would log the same."""
    global _announcing
    before, _announcing = _announcing, False
    try:
        yield
    finally:
        _announcing = before


def announce(group: dict[str, Any], placements: Sequence[Placement]) -> None:
    """Log how far a group's weights were moved."""
    if not placements or not _announcing:
        return
    bucket, _, distance = max(placements, key=lambda placed: placed[2])
    LOGGER.warning(
        "%s: %d of %d parameters were off the manifold of %s and were moved onto it, the farthest "
        "(%s) by %.2g of its largest weight",
        group.get("name") or "the parameter group",
        sum(len(moved.parameters) for moved, _, _ in placements),
        len(group["params"]),
        type(group["constraint"]).__name__,
        bucket.name,
        distance,
    )


@torch.no_grad()
def lifted(bucket: Bucket, position: Tensor) -> Tensor | None:
    """The slack of weights that were written to: made anew where it no longer fits."""
    slack, old = bucket.constraint.lift(position), bucket.slack
    if slack is None or old is None:
        return slack
    old = old.to(slack)
    off = bucket.constraint.residual(State(position, slack=old)).abs()
    off = off > 100 * tolerance_for(position.dtype)
    slack = bucket.constraint.lift_again(position, old)
    assert slack is not None
    if off.shape == slack.shape:
        return torch.where(off, slack, old)
    return slack if bool(off.any()) else old
