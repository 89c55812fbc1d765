"""How well the members' constraints hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from colangevin.constraints import State
from colangevin.ensemble.groups import MemberGroup
from colangevin.optimizers.step.bucket import Bucket, StateOf
from colangevin.optimizers.violation import Violation, cotangency_of, measured, worst_of


class MemberViolation(Violation):
    """How well a group's constraint holds in an ensemble: a ``Violation``, the worst of members.

    Attributes:
        members: the residual of each member.

    Example:
        >>> found = MemberViolation(0.2, 0.0, members=(0.1, 0.2))
        >>> found.residual, found.members
        (0.2, (0.1, 0.2))
    """

    members: tuple[float, ...]

    def __new__(cls, *fields: Any, members: Sequence[float] = ()) -> MemberViolation:
        made = super().__new__(cls, *fields)
        made.members = tuple(members)
        return made


def violation_of_members(group: MemberGroup, state_of: StateOf) -> MemberViolation:
    """The worst of a group over its members, and the residual of each.

    Raises:
        ValueError: if a geometry's residual does not have the rows of its batch first.
    """
    if not group.options:
        return MemberViolation(0.0, 0.0, group.iterations, group.fallbacks)
    residuals = [torch.zeros(len(group.options), dtype=torch.float64)]
    cotangencies = [0.0]
    for bucket in group.buckets:
        for part in bucket.singles():
            state = part.look(state_of, group.momentum)
            residuals.append(_residuals(part, state))
            if group.momentum:
                cotangencies.append(cotangency_of(part.constraint, state))
    members = torch.stack(residuals).amax(dim=0).tolist()
    worst = worst_of([0.0, *members]), worst_of(cotangencies)
    return MemberViolation(*worst, group.iterations, group.fallbacks, members=members)


def _residuals(part: Bucket, state: State) -> Tensor:
    """The largest residual of each member."""
    found = part.constraint.residual(measured(part.constraint, state)).abs()
    rows = state.position.shape
    if found.shape[:1] != rows[:1]:
        raise ValueError(
            f"{type(part.constraint).__name__}.residual must return one or more numbers for each "
            "row of the batch, and have the rows as its first dimension: for a position of the "
            f"shape {tuple(rows)} that is {rows[0]}, got the shape {tuple(found.shape)}"
        )
    return part.worst_of_members(found).double().cpu()
