"""How well constraints hold."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from colangevin.constraints import Constraint, State
from colangevin.errors import ConvergenceError
from colangevin.optimizers.step.layout import MOMENTUM, STEP, StateOf, work_dtype
from colangevin.optimizers.step.place import names_of
from colangevin.torch_compat import local_of

if TYPE_CHECKING:
    from colangevin.optimizers.step.bucket import Bucket
    from colangevin.optimizers.step.plan import Plan


class Violation(NamedTuple):
    """How well a group's constraint holds.

    Attributes:
        residual: max |g| relative to the constraint's scale; NaN if a weight is.
        cotangency: max |∇gᵀp| relative to |∇g||p|, of the momenta as the library reads them.
        iterations: of the projection of the last step that needed most of them.
        fallbacks: how many projections have used the polar factor so far.
        at_bound: the share of what has a bound that is at it. A weight of ``Circle`` or of a
            ``Box`` with two sides is, if it is nearer than 2 % of the radius, or of half the
            width; with one side, if it is on the wall. Of ``Sphere`` rows count, of ``Spectral``
            singular values (2 % likewise), of ``Simplex`` weights below 2 % of their mean. It is
            0 where there is no bound: equalities, free weights, ``General``.
        members: the residual of each member of an ensemble.

    Example:
        >>> import torch
        >>> from colangevin import Circle, CoLA
        >>> weight = torch.nn.Parameter(torch.tensor([0.1, 0.4]))
        >>> (found,) = CoLA([weight], lr=0.1, constraint=Circle(0.5)).violation()
        >>> found.residual < 1e-6, found.fallbacks, found.at_bound
        (True, 0, 0.0)
    """

    residual: float
    cotangency: float
    iterations: int = 0
    fallbacks: int = 0
    at_bound: float = 0.0
    members: tuple[float, ...] = ()


def violation_of(
    buckets: Iterable[tuple[Bucket, bool]],
    state_of: StateOf,
    counts: tuple[int, int],
    count: int = 0,
) -> Violation:
    """The worst of some buckets, measured in float64 where possible.

    Args:
        buckets: with whether they have momenta.
        state_of: the state of the parameters.
        counts: iterations and fallbacks, as of a ``Violation``.
        count: of members in an ensemble.
    """
    members = torch.zeros(count, dtype=torch.float64)
    residuals, cotangencies, bounds = [0.0], [0.0], []
    for bucket, momentum in buckets:
        constraint, state = bucket.constraint, bucket.look(state_of, momentum)
        found = constraint.residual(measured(constraint, state)).abs()
        if count:
            members = torch.maximum(members, _of_members(bucket, state, found))
        residuals.append(bucket.worst(_worst(found)))
        bounds.append(bound_count(bucket, state))
        if momentum:
            # A momentum that is kept modulo the normal space is read without its normal part.
            cotangencies.append(bucket.worst(cotangency_of(constraint, state)))
    worst = worst_of(residuals), worst_of(cotangencies)
    return Violation(*worst, *counts, share_of(bounds), tuple(members.tolist()))


def _of_members(bucket: Bucket, state: State, found: Tensor) -> Tensor:
    """The largest residual of each member."""
    rows = state.position.shape
    if found.shape[:1] != rows[:1]:
        raise ValueError(
            f"{type(bucket.constraint).__name__}.residual must return one or more numbers for each "
            "row of the batch, and have the rows as its first dimension: for a position of the "
            f"shape {tuple(rows)} that is {rows[0]}, got the shape {tuple(found.shape)}"
        )
    return bucket.worst_of_members(found).double().cpu()


def bound_count(bucket: Bucket, state: State) -> tuple[float, float]:
    """How many weights, rows or singular values of a bucket are at their bound, and of how many."""
    found = bucket.constraint.at_bound(state)
    if found is None:
        return 0.0, 0.0
    terms = torch.stack([found.double().sum(), torch.ones_like(found).double().sum()])
    shard = bucket.shards[0] if bucket.shards else None
    made = terms if shard is None else torch.stack([shard.total(term) for term in terms])
    return float(made[0]), float(made[1])


def share_of(counts: Iterable[tuple[float, float]]) -> float:
    """The share of all that is at its bound; 0 where nothing has one.

    Example:
        >>> share_of([(1.0, 2.0), (0.0, 2.0)])
        0.25
    """
    at_bound, everything = (sum(column) for column in zip((0.0, 0.0), *counts, strict=True))
    return at_bound / everything if everything else 0.0


def cotangency_of(constraint: Constraint, state: State) -> float:
    """max |∇gᵀp| relative to |∇g||p|; NaN if a number is."""
    try:
        closed = constraint.close(state)
    except ConvergenceError:  # numbers that are not finite, most likely
        return math.nan
    return _worst(constraint.cotangency(measured(constraint, closed)))


def moved_buckets(plan: Plan, state_of: StateOf) -> Iterator[tuple[Bucket, bool]]:
    """The buckets of a group that have a state, and whether they have momenta."""
    ready = [
        i
        for i, parameter in enumerate(plan.parameters)
        if STEP in state_of.get(parameter, {}) and (parameter.numel() or plan.constraint.joint)
    ]
    for _, bucket in plan.divide(ready):
        momentum = all(MOMENTUM in state_of[p] for p in bucket.owners)
        bucket.prepare(state_of, momentum)
        yield bucket, momentum


def measured(constraint: Constraint, state: State) -> State:
    """The state as it is measured: in float64 where possible."""
    if constraint.double_safe and state.position.device.type != "mps":
        return state.map(Tensor.double)
    return state


def _worst(values: Tensor) -> float:
    return float(values.abs().max()) if values.numel() else 0.0


def worst_of(values: list[float]) -> float:
    """The largest number, or NaN if there is one: ``max`` would hide it.

    Example:
        >>> worst_of([1.0, float("nan"), 2.0])
        nan
    """
    return next((value for value in values if value != value), max(values))


# --- numbers that are not finite ----------------------------------------------------------------


def not_finite(groups: Iterable[dict[str, Any]], gradients: bool = False) -> str | None:
    """The first parameter that has a weight, or a gradient, of NaN or infinity; None if none has.

    Example:
        >>> weight = torch.nn.Parameter(torch.tensor([1.0, torch.nan]))
        >>> not_finite([{"params": [weight], "names": ["bias"]}])
        'bias'
    """
    names, tensors = [], []
    for group in groups:
        for name, parameter in zip(names_of(group), group["params"], strict=True):
            tensor = parameter.grad if gradients else parameter
            if tensor is None or not parameter.requires_grad:
                continue
            if tensor.layout is torch.strided and tensor.numel():
                names.append(name)
                tensors.append(local_of(tensor.detach()))
    if not tensors:
        return None
    # Read together: reading a number waits for an accelerator. A sum has NaN or infinity if one of
    # its terms has, but may also overflow by itself.
    sums = [tensor.sum(dtype=work_dtype(tensor.dtype)) for tensor in tensors]
    good = torch.stack([found.isfinite().to(sums[0].device) for found in sums]).tolist()
    for name, tensor, fine in zip(names, tensors, good, strict=True):
        if not fine and not bool(tensor.isfinite().all()):
            return name
    return None
