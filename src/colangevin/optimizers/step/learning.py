"""Geometries that change with what they see of a weight, such as a radius that is found."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from colangevin.optimizers.distributed.shards import whole_of
from colangevin.optimizers.step import place
from colangevin.optimizers.step.layout import STEP
from colangevin.torch_compat import is_sharded, stamp

if TYPE_CHECKING:
    from colangevin.optimizers.step.plan import Marks, Plan


def learn(plan: Plan, view: Callable[[], Plan], marks: Marks) -> Marks:
    """Look at the weights of a plan after a step; a geometry that has changed holds from now on.

    Args:
        plan: of the step, which ends where a geometry has changed.
        view: the same parameters with their geometries as they are then.
        marks: of the parameters, when the plan ends.

    Returns:
        The marks of the parameters that got another geometry.
    """
    rule, state_of, changed = plan.constraint, plan.state_of, []
    for index in plan.active:
        parameter = plan.parameters[index]
        entry = state_of[parameter]
        if int(entry[STEP]) % rule.interval == 0:
            weight = whole_of(parameter) if is_sharded(parameter) else parameter
            if rule.learn(weight, entry):
                changed.append(index)
    found: Marks = {}
    if not changed:
        return found
    plan.leave(marks)
    for _, bucket in view().singles(changed):
        placed = place.placement_of(bucket, strict=False)
        if placed is not None:
            bucket.move_to(state_of, placed[1])
        bucket.prepare(state_of, plan.momentum)
        if plan.momentum:
            state = bucket.look(state_of, momentum=True)
            assert state.momentum is not None
            own = bucket.constraint.tangent(state, state.momentum)
            bucket.write(state._replace(momentum=own.main, slack_momentum=own.slack))
        bucket.push()
        found.update({p: stamp(p) for p in bucket.owners})
    return found
