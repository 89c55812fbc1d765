"""From one optimizer to another in mid-training."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.optim.optimizer import Optimizer

from colangevin.constraints.inflection import FOUND
from colangevin.optimizers.cola import CoLA
from colangevin.optimizers.distributed.shards import laid_like
from colangevin.optimizers.options import dynamics, is_adaptive
from colangevin.optimizers.step.exchanged import same_rule
from colangevin.optimizers.step.friction import friction_of
from colangevin.optimizers.step.layout import MASTER, MOMENTUM, SLACK, SLACK_MOMENTUM, STEP
from colangevin.optimizers.step.plan import Plan
from colangevin.torch_compat import stamp

Momenta: TypeAlias = "dict[Tensor, Tensor]"
Owners: TypeAlias = "Mapping[Tensor, dict[str, Any]]"
"""The group of each parameter."""


@torch.no_grad()
def hand_over(source: Optimizer, target: Optimizer, *, momenta: bool = True) -> Optimizer:
    """Let ``target`` go on where ``source`` stands.

    Positions stay, with their slack where the constraint is the same; a weight that is off the
    manifold of a new constraint is put onto it. Momenta pass between ``CoLA`` and
    ``torch.optim.SGD`` as the physical p = −√lr · momentum_buffer, so that a change of ``lr``
    does not change the speed, and are projected where the constraint is a new one. They are
    dropped where a method has none (overdamped, SGD without momentum) or keeps something else
    (Adam's means of gradients are no momenta). The friction variable passes from an adaptive
    group to an adaptive group of its parameters.

    Args:
        source: the optimizer that has made the last step; it is left as it is.
        target: the optimizer that will make the next, on the same parameters or some of them.
        momenta: False starts ``target`` from rest.

    Returns:
        ``target``.

    Raises:
        ValueError: if the two share no parameter.

    Example:
        >>> weight = torch.nn.Parameter(torch.ones(1))
        >>> first = torch.optim.SGD([weight], lr=0.04, momentum=0.9)
        >>> weight.square().sum().backward()
        >>> first.step()
        >>> second = hand_over(first, CoLA([weight], lr=0.01, momentum=0.9))
        >>> second.state[weight]["momentum_buffer"] / first.state[weight]["momentum_buffer"]
        tensor([2.])
    """
    owners = {p: group for group in source.param_groups for p in group["params"]}
    if not any(p in owners for group in target.param_groups for p in group["params"]):
        raise ValueError("source and target share no parameter")
    moving = _momenta(source) if momenta else {}
    if isinstance(target, CoLA):
        target._prepare()  # plans and batches of an earlier use
        for index in range(len(target.param_groups)):
            _to_group(source, target, index, owners, moving)
    elif isinstance(target, torch.optim.SGD):
        _to_sgd(target, moving)
    return target


def _has_momentum(group: Mapping[str, Any]) -> bool:
    if "thermostat" not in group:
        return bool(group.get("momentum"))
    return not dynamics(group).is_overdamped


def _speed(group: Mapping[str, Any]) -> float:
    """h of a group, p = −h · buffer; 0 where it has no momentum."""
    return math.sqrt(float(group["lr"])) if _has_momentum(group) else 0.0


def _momenta(source: Optimizer) -> Momenta:
    """The physical momentum of each parameter that has one, in the space of the weight."""
    if not isinstance(source, CoLA | torch.optim.SGD):
        return {}
    found: Momenta = {}
    for index, group in enumerate(source.param_groups):
        entries = [source.state.get(p, {}) for p in group["params"]]
        indices = [i for i, entry in enumerate(entries) if entry.get(MOMENTUM) is not None]
        if not indices or not _has_momentum(group):
            continue
        if isinstance(source, CoLA):
            for _, bucket in source._view(index).divide(indices):
                state = bucket.look(source.state, momentum=True)
                parts = bucket.scatter(bucket.constraint.ambient_momentum(state) * -_speed(group))
                found.update(zip(bucket.owners, bucket.globalised(parts), strict=True))
        else:
            for i in indices:
                found[group["params"][i]] = entries[i][MOMENTUM] * -_speed(group)
    return found


def _to_sgd(target: torch.optim.SGD, moving: Momenta) -> None:
    for group in target.param_groups:
        for p in group["params"] if _speed(group) else ():
            if p in moving:
                momentum = laid_like(p, moving[p]) / -_speed(group)
                target.state[p][MOMENTUM] = momentum.to(p.dtype)


def _to_group(source: Optimizer, target: CoLA, index: int, owners: Owners, moving: Momenta) -> None:
    group, plan = target.param_groups[index], target._view(index)
    shared = [i for i, p in enumerate(group["params"]) if p in owners]
    for i in shared:
        entry = target.state[group["params"][i]]
        target.state[group["params"][i]] = {k: entry[k] for k in (STEP, *FOUND) if k in entry}
    same = {i for i in shared if _same_geometry(owners[group["params"][i]], group)}
    for i in same:
        p = group["params"][i]
        target.state[p].update(_copies(source.state.get(p, {}), owners[p], group, bool(moving)))
    for bucket, position, _ in plan.settle(target._strict):
        bucket.move_to(target.state, position)
    for _, bucket in plan.divide([i for i in shared if group["params"][i].numel()]):
        bucket.prepare(target.state, _has_momentum(group))
    given = [i for i in shared if group["params"][i] in moving and _speed(group)]
    _project_momenta(target, plan, [i for i in given if i not in same], _speed(group), moving)
    for i in given:
        # It has moved before, so its next call is not its first. The counts are the target's own:
        # with those of the source, noise could come a second time.
        steps = source.state[group["params"][i]].get(STEP)
        if steps is None or int(steps) > 0:
            target.state[group["params"][i]][STEP].clamp_(min=1)
    target._marks.update({p: stamp(p) for p in (group["params"][i] for i in shared)})
    if is_adaptive(group):
        givers = [owners[group["params"][i]] for i in shared]
        plan.share_friction(_friction(source, group, givers))


def _project_momenta(
    target: CoLA, plan: Plan, indices: list[int], speed: float, moving: Momenta
) -> None:
    for _, bucket in plan.divide(indices):
        state = bucket.look(target.state, momentum=True)
        given = [bucket.localised(i, moving[p]) for i, p in enumerate(bucket.owners)]
        vector = bucket.gather([part / -speed for part in given])
        tangent = bucket.constraint.tangent(state, vector)
        bucket.write(state._replace(momentum=tangent.main, slack_momentum=tangent.slack))


def _same_geometry(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two groups keep the same numbers for a parameter, so that copies are exact."""
    if "constraint" not in one or one["constraint"].joint != other["constraint"].joint:
        return False
    if one["constraint"].joint and list(map(id, one["params"])) != list(map(id, other["params"])):
        return False
    return same_rule(one["constraint"], other["constraint"])


def _copies(
    entry: Mapping[str, Any], own: Mapping[str, Any], group: Mapping[str, Any], momenta: bool
) -> dict[str, Any]:
    """What a parameter of the group ``own`` takes along into another of the same geometry."""
    kept = {name: entry[name].clone() for name in (SLACK, MASTER, *FOUND) if name in entry}
    if momenta and _has_momentum(own) and _speed(group):
        scale = _speed(own) / _speed(group)
        kept.update({k: entry[k] * scale for k in (MOMENTUM, SLACK_MOMENTUM) if k in entry})
    return kept


def _friction(source: Optimizer, group: dict[str, Any], givers: list[dict[str, Any]]) -> float:
    """Where ξ of a group begins: that of the group which all of its parameters come from."""
    giver = givers[0] if givers else group
    one = len(givers) == len(group["params"]) and all(other is giver for other in givers)
    if one and giver.get("thermostat") == "adaptive":
        return friction_of(giver, source.state)
    return float(group["friction"])
