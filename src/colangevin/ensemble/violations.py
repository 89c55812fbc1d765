"""How well the members' constraints hold."""

from __future__ import annotations

import torch
from torch import Tensor

from colangevin.constraints import State
from colangevin.ensemble.groups import MemberGroup
from colangevin.optimizers.batches import Batch, StateOf
from colangevin.optimizers.violation import Violation, cotangency_of, measured, worst_of


def violation_of_members(group: MemberGroup, state_of: StateOf) -> Violation:
    """The worst of a group over its members, and the residual of each.

    Raises:
        ValueError: if a geometry's residual does not have the rows of its batch first.
    """
    if not group.options:
        return Violation(0.0, 0.0, group.iterations, group.fallbacks)
    residuals = [torch.zeros(len(group.options), dtype=torch.float64)]
    cotangencies = [0.0]
    for batch in group.batches:
        parts = [batch.part([i]) for i in range(len(batch.parameters))]
        for part in parts if not batch.constraint.joint else [batch]:
            state = part.read(state_of, group.momentum)
            residuals.append(_residuals(part, state))
            if group.momentum:
                cotangencies.append(cotangency_of(part.constraint, state))
    members = torch.stack(residuals).amax(dim=0).tolist()
    worst = worst_of([0.0, *members]), worst_of(cotangencies)
    return Violation(*worst, group.iterations, group.fallbacks, tuple(members))


def _residuals(part: Batch, state: State) -> Tensor:
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
