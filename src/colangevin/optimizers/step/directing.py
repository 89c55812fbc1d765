"""Directions: what takes the place of the gradients of a bucket."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from colangevin.constraints import State
from colangevin.constraints.base import Scalar
from colangevin.integrators.recipe import direction
from colangevin.optimizers.options import decays
from colangevin.optimizers.step.layout import Layout
from colangevin.torch_compat import is_sharded

if TYPE_CHECKING:
    from colangevin.optimizers.directions import Direction
    from colangevin.optimizers.step.bucket import Bucket
    from colangevin.optimizers.step.plan import Plan


def direct(bucket: Bucket, weight_decay: Scalar, steps: Sequence[int] | Tensor) -> None:
    """Let the updates of a bucket's direction take the place of the gradients.

    Args:
        bucket: with its gradients, which are replaced.
        weight_decay: of the weights in the gradients, one number or one per member.
        steps: how many steps each parameter has made.
    """
    own, dtype = bucket.direction, bucket.dtype
    assert own is not None
    weights = [weight.detach().to(dtype) for weight in bucket.weights()]
    slopes = [slope if slope.dtype is dtype else slope.to(dtype) for slope in bucket.slopes()]
    if isinstance(weight_decay, Tensor) or weight_decay != 0.0:
        slopes = bucket.decayed(slopes, weights, weight_decay)
    updates = own.updates(slopes, weights, bucket.memories(), bucket.ages(steps))
    if own.whole or own.relative or own.tangent:
        updates = _finished(bucket, own, updates, weights)
    if not own.trusted:
        check_updates(bucket.names, updates, bucket.parameters, look=not bucket.captured)
    bucket.gradients = list(updates)


def forces(group: dict[str, Any], plan: Plan | None) -> dict[Tensor, Tensor]:
    """What the parameters of a group are kicked with; its plan is needed with a direction."""
    if plan is None:
        decay = decays(group)[1]
        slopes = [(p, p.grad) for p in group["params"] if p.grad is not None]
        return {p: direction(g, p.detach(), decay).clone() for p, g in slopes}
    found: dict[Tensor, Tensor] = {}
    for bucket in plan.buckets:
        direct(bucket, plan.coupled_decay, plan.steps(bucket))
        updates = [u for u in bucket.gradients if u is not None]
        for own, update in zip(bucket.owners, bucket.globalised(updates), strict=True):
            found[own] = direction(update, own.detach(), plan.weight_decay).clone()
        bucket.gradients = [None] * len(updates)
    return found


def _finished(
    bucket: Bucket, rule: Direction, updates: list[Tensor], weights: list[Tensor]
) -> list[Tensor]:
    """Updates of whole weights, of which this process may have parts."""
    lead, whole = int(bucket.members is not None), bucket.whole()
    if bucket.shards:
        weights = [weight.to(bucket.dtype) for weight in whole.parameters]
        wrapped: list[Any] = bucket.globalised(updates)
        updates = [u.full_tensor() if is_sharded(u) else u for u in wrapped]
    updates = rule.finish(updates, whole.constraint, weights, lead)
    if rule.tangent:
        batches = State(whole.gather(weights)), whole.gather(updates)
        updates = whole.scatter(whole.constraint.tangent(*batches).main)
    if rule.relative:
        updates = _lengthened(whole, updates, weights)
    return [bucket.localised(i, own) for i, own in enumerate(updates)] if bucket.shards else updates


def _lengthened(
    layout: Layout, updates: Sequence[Tensor], weights: Sequence[Tensor]
) -> list[Tensor]:
    """Updates as long as the radius of the manifold, or as the norm of a free weight.

    Each copy of a manifold has its own; where every entry is one, the weight counts.
    """
    tiny, own = torch.finfo(layout.dtype).tiny, layout.constraint
    most = torch.finfo(layout.dtype).max  # an infinite factor of an update of 0 would be NaN

    def lengthened(update: Tensor, place: Tensor, dims: list[int]) -> Tensor:
        length = torch.linalg.vector_norm(update, dim=dims, keepdim=True).clamp_min(tiny)
        return update * (own.extent(place, dims) / length).clamp_max(most)

    if not own.elementwise:
        batch = layout.gather(updates)
        return layout.scatter(lengthened(batch, layout.gather(weights), own.inner(batch)))
    pairs = zip(updates, weights, strict=True)
    return [lengthened(u, w, own.inner(u)[int(layout.members is not None) :]) for u, w in pairs]


def check_updates(
    names: Sequence[str], updates: Sequence[Tensor], weights: Sequence[Tensor], look: bool = True
) -> None:
    """Refuse what a direction of a user's has made of gradients.

    Args:
        names: of the parameters.
        updates: what it has made.
        weights: the parameters.
        look: whether to look for NaN, too, which waits for a device.

    Raises:
        ValueError: naming the parameter.
    """
    if len(updates) != len(weights):
        raise ValueError(f"direction made {len(updates)} updates for {len(weights)} parameters")
    for name, update, weight in zip(names, updates, weights, strict=True):
        if not isinstance(update, Tensor) or update.shape != weight.shape:
            shape = tuple(update.shape) if isinstance(update, Tensor) else type(update).__name__
            raise ValueError(
                f"direction made an update of shape {shape} for {name} of shape "
                f"{tuple(weight.shape)}; they must be the same"
            )
        if look and not bool(update.isfinite().all()):
            raise ValueError(f"direction made an update for {name} that is not finite")
