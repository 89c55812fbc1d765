"""From parameter groups to plans: which batches move, and how, in the coming step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from colangevin.constraints import Constraint, Unconstrained
from colangevin.integrators.dynamics import Action, Dynamics
from colangevin.integrators.stretches import stretch
from colangevin.optimizers import placement
from colangevin.optimizers.buckets import MOMENTUM, SLACK, Bucket, StateOf, make_buckets
from colangevin.optimizers.options import dynamics
from colangevin.optimizers.resident import Resident

PLANNED = (
    "lr",
    "momentum",
    "friction",
    "temperature",
    "scheme",
    "delayed_gradient",
    "weight_decay",
)
"""The options of a group that its plan depends on."""


class Plan(NamedTuple):
    """What one bucket does in one step."""

    bucket: Bucket
    resident: Resident | None
    actions: tuple[Action, ...]
    momentum: bool
    weight_decay: float


class Planner:
    """Makes plans, and keeps those of the last step while nothing has changed.

    Everything in it is derived from the groups, so it is never saved.

    Args:
        strict: refuse weights that are off the manifold instead of moving them onto it.
    """

    def __init__(self, strict: bool) -> None:
        self._strict = strict
        self._buckets: dict[tuple[int, ...], list[tuple[Bucket, Resident | None]]] = {}
        self._plans: dict[int, tuple[tuple[object, ...], list[Plan]]] = {}
        self._settled: dict[int, Constraint] = {}
        self._before: dict[int, tuple[Tensor, Tensor, dict[str, Any]]] = {}
        self._versions: dict[int, tuple[object, ...]] = {}

    def plan(
        self, index: int, group: dict[str, Any], active: list[int], state_of: StateOf
    ) -> list[Plan]:
        """The plans of a group whose parameters ``active`` have gradients."""
        if not active:
            return []
        share = group.get("stretch", (0, 1))  # set while Multirate walks a part of the way
        options = [group[name] for name in PLANNED]
        # Schedulers change a tensor in place, so it is its number that is compared.
        numbers = [float(o) if isinstance(o, Tensor) else o for o in options]
        # Groups and their constraints may be replaced; what a plan holds keeps its identity.
        key = (share, *self._identities(group, active), *numbers)
        kept = self._plans.get(index)
        if kept is not None and kept[0] == key and not self._written(group, active):
            return kept[1]
        settings = dynamics(group)
        self.settle(group, active, state_of)
        momentum = not settings.is_overdamped
        fresh, moved = by_age(group, active, state_of) if momentum else ([], active)
        plans = [
            Plan(bucket, resident, stretch(actions, *share), momentum, group["weight_decay"])
            for indices, actions in _calls(settings, fresh, moved)
            for bucket, resident in self.buckets(group, indices)
        ]
        if not fresh:
            self._plans[index] = (key, plans)
        return plans

    def settle(self, group: dict[str, Any], active: list[int], state_of: StateOf) -> None:
        """Put on the manifold what was changed between construction and the first step.

        So is what the user has written to a parameter since the last step. A parameter whose
        constraint has been replaced is put on the new one, and is at rest.
        """
        constraint = group["constraint"]
        written = self._written(group, active)
        for parameter in written:
            self._settled.pop(id(parameter), None)
        if all(self._settled.get(id(group["params"][i])) is constraint for i in active):
            return
        for parameter in group["params"]:
            if self._settled.get(id(parameter), constraint) is not constraint:
                self._remember(parameter, state_of)
                state_of.pop(parameter, None)
        placements = placement.of_group(group, self._strict)
        for parameter in (p for bucket, _ in placements for p in bucket.parameters):
            self._remember(parameter, state_of)
        placement.commit(placements, state_of)
        for parameter, slack in placement.slacks(group, written, state_of):
            self._remember(parameter, state_of)
            state_of[parameter][SLACK] = slack
        self._settled.update((id(p), constraint) for p in group["params"])

    def _remember(self, parameter: Tensor, state_of: StateOf) -> None:
        """Keep what a parameter was before this step, for ``undo``."""
        if id(parameter) not in self._before:
            entry = dict(state_of.get(parameter, {}))
            self._before[id(parameter)] = (parameter, parameter.detach().clone(), entry)

    @staticmethod
    def _identities(group: dict[str, Any], indices: Sequence[int]) -> tuple[int, ...]:
        parameters = group["params"]
        return (id(group["constraint"]), *[id(parameters[i]) for i in indices])

    def _written(self, group: dict[str, Any], active: list[int]) -> list[Tensor]:
        """The constrained parameters that have been written to since the last step."""
        known = [(p, self._versions.get(id(p))) for p in _watched(group, active)]
        return [p for p, version in known if version is not None and version != _version(p)]

    def keep(self, groups: Sequence[dict[str, Any]], actives: Sequence[list[int]]) -> None:
        """The step was made: what ``settle`` has moved stays where it is."""
        self._before.clear()
        for group, active in zip(groups, actives, strict=True):
            for parameter in _watched(group, active):
                self._versions[id(parameter)] = _version(parameter)

    @torch.no_grad()
    def undo(self, state_of: StateOf) -> None:
        """The step has failed: put back what ``settle`` has moved for it."""
        for parameter, old, entry in self._before.values():
            parameter.copy_(old)
            self._settled.pop(id(parameter), None)
            if entry:
                state_of[parameter] = entry
            else:
                state_of.pop(parameter, None)
        if self._before:
            self._plans.clear()  # a plan that is kept does not settle again
        self._before.clear()

    def buckets(
        self, group: dict[str, Any], indices: Sequence[int]
    ) -> list[tuple[Bucket, Resident | None]]:
        """The buckets of some of a group's parameters, with their persistent batches."""
        key = self._identities(group, indices)
        if key not in self._buckets:
            names = placement.names(group)
            buckets = make_buckets(
                group["constraint"],
                [group["params"][i] for i in indices],
                [names[i] for i in indices],
            )
            self._buckets[key] = [(bucket, Resident.of(bucket)) for bucket in buckets]
        return self._buckets[key]


def _watched(group: dict[str, Any], active: list[int]) -> list[Tensor]:
    """The parameters for which it matters whether the user writes to them."""
    if isinstance(group["constraint"], Unconstrained) or torch.compiler.is_compiling():
        return []
    return [group["params"][i] for i in active]


def _version(parameter: Tensor) -> tuple[object, ...]:
    """What changes when a parameter is written to, or gets other memory (``p.data = ...``)."""
    return parameter._version, parameter.data_ptr(), parameter.stride()


def by_age(
    group: dict[str, Any], active: list[int], state_of: StateOf
) -> tuple[list[int], list[int]]:
    """The parameters that have never moved, and the others."""
    fresh = [i for i in active if MOMENTUM not in state_of.get(group["params"][i], {})]
    return fresh, [i for i in active if i not in fresh] if fresh else active


def _calls(
    settings: Dynamics, fresh: list[int], moved: list[int]
) -> list[tuple[list[int], tuple[Action, ...]]]:
    """Parameters that have never moved make a first call, which may differ."""
    first, later = settings.actions(first=True), settings.actions(first=False)
    if first == later:
        return [(sorted(fresh + moved), later)]
    return [(indices, a) for indices, a in ((fresh, first), (moved, later)) if indices]
