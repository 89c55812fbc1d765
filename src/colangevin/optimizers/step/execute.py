"""One step: the plans of all groups, carried out in one transaction.

Each is done in place. What those that can fail write over is kept until all are done, and put
back if one fails. A bucket is moved by a kernel in C or by the formulas, in blocks that stay in
the cache where its geometry allows it. The buckets of a group with an adaptive thermostat move in
lockstep.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from torch import Tensor

from colangevin.constraints import Outcome
from colangevin.constraints.base import overwrite
from colangevin.errors import ConvergenceError
from colangevin.integrators import adaptive
from colangevin.integrators.adaptive import AdaptiveDynamics, Part
from colangevin.integrators.pieces import advance
from colangevin.integrators.recipe import Recipe, stretch
from colangevin.integrators.scheme import Action, Drift, Impulse, Move, Overdamped, has_letter
from colangevin.optimizers.step.noise import Noise

if TYPE_CHECKING:
    from colangevin.optimizers.step.bucket import Bucket
    from colangevin.optimizers.step.plan import Plan

BLOCK = 7 << 14
"""Numbers in a block. Smaller ones are bound by calls; temporaries of twice this size are given
back to the system whenever they are freed, and come back page by page."""


def execute(plans: Collection[Plan]) -> None:
    """Carry out all plans or, if one that can fail does so or is interrupted, none.

    Those that cannot fail come last. An interrupt between two of them leaves some undone.

    Raises:
        ConvergenceError: everything is as it was before.
    """
    fallible = [plan for plan in plans if plan.fallible]
    kept = [plan.snapshot() for plan in fallible]
    try:
        for plan in fallible:
            plan.run()
    except BaseException:
        for put_back in kept:
            put_back()
        raise
    for plan in plans:
        if not plan.fallible:
            plan.run()


def run_formulas(
    bucket: Bucket,
    recipe: Recipe,
    seeds: Sequence[int],
    steps: Sequence[int] | Tensor,
    draw: int,
    share: int = 0,
) -> Outcome | None:
    """Move a bucket; returns what happened in its projections, if there are any.

    Args:
        bucket: what moves.
        recipe: how.
        seeds: of the noise, one per member.
        steps: how many steps each parameter has made, maybe as a tensor that is not read.
        draw: number of the first draw.
        share: which stretch of the step it is.
    """
    constraint, state = bucket.constraint, bucket.home or bucket.read()
    simple = not (bucket.shards or constraint.joint)
    gradient = bucket.gather(bucket.gradients if simple else bucket.slopes())  # type: ignore[arg-type]
    if bucket.members is not None:
        recipe = recipe.spread(bucket.per_member_shape)
    actions, _, decay = recipe
    noisy = any(not isinstance(action, Drift) and action.scale is not None for action in actions)
    noise = Noise(bucket, seeds, steps, draw) if noisy else None
    size = state.position.numel()
    alone = constraint.elementwise and not constraint.fallible and len(bucket.parameters) == 1
    alone = alone and size > BLOCK and gradient.dim() == 1 and gradient.is_cpu
    # Without a key its constants may be tensors, one number for each weight.
    if alone and constraint.batch_key(bucket.shapes[0]) is not None:
        for first in range(0, size, BLOCK):  # no temporary is larger than a block
            cut = slice(first, first + BLOCK)
            part, slope = state.map(lambda tensor, cut=cut: tensor[cut]), gradient[cut]  # type: ignore[misc]
            force = bucket.force(slope, part.position, decay)
            own = None if noise is None else noise.at(first).draw
            overwrite(part, advance(constraint, part, force, actions, own))
    else:
        plain = type(decay) is float and decay == 0.0
        force = gradient if plain else bucket.force(gradient, state.position, decay)
        own = None if noise is None else noise.draw
        state = advance(constraint, state, force, actions, own)
    bucket.write(state, Noise(bucket, seeds, steps).chances(share) if bucket.rounds else None)
    return state.outcome


# --- adaptive thermostats -------------------------------------------------------------------


def run_adaptive(plan: Plan) -> Outcome | None:
    """Move the buckets of a group with an adaptive thermostat, which share its friction."""
    buckets, settings = plan.buckets, plan.settings
    assert isinstance(settings, AdaptiveDynamics)
    friction = plan.friction
    parts = [_part(plan, bucket) for bucket in buckets]
    old = [i for i, bucket in enumerate(buckets) if not bucket.fresh]
    everyone, scheme = range(len(parts)), settings.scheme
    if len(old) == len(parts):
        walks: list[tuple[Sequence[int], Sequence[Move]]] = [(everyone, scheme.moves)]
    else:
        walks = [(old, scheme.waiting)] if old else []
        walks.append((everyone, scheme.first))
    for chosen, moves in walks:
        own = [buckets[i] for i in chosen]
        walked = stretch(moves, *plan.share)
        try:
            moved, friction = adaptive.advance(
                settings, [parts[i] for i in chosen], friction, degrees_of_freedom(own), walked
            )
        except ConvergenceError as error:
            raise ConvergenceError(f"{'; '.join(b.name for b in own)}: {error}") from error
        for i, part in zip(chosen, moved, strict=True):
            parts[i] = part
    plan.friction.copy_(friction)
    outcome = None
    for bucket, part in zip(buckets, parts, strict=True):
        noise = Noise(bucket, plan.seeds, plan.steps(bucket))
        bucket.write(part.state, noise.chances(plan.share[0]) if bucket.rounds else None)
        if part.state.outcome is not None:
            outcome = part.state.outcome.joined(outcome)
    return outcome


def _part(plan: Plan, bucket: Bucket) -> Part:
    state, gradient = bucket.read(), bucket.gather(bucket.slopes())
    decay = plan.recipe(bucket.fresh).weight_decay
    if isinstance(decay, Tensor):
        decay = bucket.per_member_shape(decay)
    force = bucket.force(gradient, state.position, decay)
    draw = Noise(bucket, plan.seeds, plan.steps(bucket), plan.first_draw(bucket.fresh)).draw
    if bucket.members is None:
        return Part(bucket.constraint, state, force, draw, total=bucket.per_member)
    shape = bucket.per_member_shape
    return Part(bucket.constraint, state, force, draw, shape, bucket.per_member)


def degrees_of_freedom(buckets: Sequence[Bucket]) -> int:
    """N: the numbers of one member that are free to move, less the constraints."""
    return sum(bucket.constraint.degrees_of_freedom(bucket.whole_shapes) for bucket in buckets)


def is_noisy(action: Action | Move) -> bool:
    """Whether there may be noise in an action, or in a move of an adaptive thermostat."""
    if isinstance(action, (Impulse, Overdamped)):
        return action.scale is not None
    return has_letter(action, "DF")
