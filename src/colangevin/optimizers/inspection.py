"""How well constraints hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from colangevin.constraints import State
from colangevin.optimizers.buckets import MOMENTUM, Bucket, StateOf


class Violation(NamedTuple):
    """How well a group's constraint holds.

    Attributes:
        residual: max |g| relative to the constraint's scale.
        cotangency: max |∇gᵀp| relative to |∇g||p|.
    """

    residual: float
    cotangency: float


def violation(buckets: Sequence[Bucket], state_of: StateOf) -> Violation:
    """The worst residual and cotangency of some buckets, measured in float64 where possible.

    Momenta that are kept modulo the normal space are projected first, as the next step does.
    """
    residual = cotangency = 0.0
    for bucket in buckets:
        constraint = bucket.constraint
        momentum = all(MOMENTUM in state_of.get(p, {}) for p in bucket.parameters)
        state = bucket.read(state_of, momentum)
        if constraint.double_safe and state.position.device.type != "mps":
            state = State(*[None if t is None else t.double() for t in state])  # type: ignore[arg-type]
        residual = max(residual, float(constraint.residual(state).abs().max()))
        if momentum:
            along = constraint.cotangency(constraint.close(state))
            cotangency = max(cotangency, float(along.abs().max()))
    return Violation(residual, cotangency)
