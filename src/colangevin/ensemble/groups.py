"""The members' parameter groups as one: stacked parameters, joined settings, one step."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from colangevin.constraints import Constraint, Outcome
from colangevin.constraints.base import Scalar
from colangevin.ensemble.settings import plain, shared
from colangevin.integrators.adaptive import AdaptiveDynamics
from colangevin.integrators.recipe import FAINT, Recipe, joined
from colangevin.optimizers.cola import CoLA
from colangevin.optimizers.options import dynamics, is_adaptive
from colangevin.optimizers.partitioned.methods import decay
from colangevin.optimizers.step.bucket import Bucket, StateOf
from colangevin.optimizers.step.plan import Plan

COLUMNS = ("lr", "temperature", "coupling", "driving_noise")


class MemberGroup:
    """One parameter group of all members.

    Args:
        names: of its parameters.
        groups: the options of each member's group.
        geometries: of each member's parameters; None for those of a joint constraint.
        ordinals: the places of the parameters in an optimizer.

    Raises:
        ValueError: if the members differ in what cannot differ.
    """

    def __init__(
        self,
        names: Sequence[str],
        groups: Sequence[dict[str, Any]],
        geometries: Sequence[Sequence[Constraint | None]],
        ordinals: Sequence[int],
    ) -> None:
        self.names = list(names)
        self.options = [dict(group) for group in groups]
        self._ordinals = list(ordinals)
        self._geometries = [list(own) for own in geometries]
        self.iterations = self.fallbacks = 0
        self.resting: Tensor | None = None  # members whose gradient was not finite
        self._recipes: dict[bool, Recipe] = {}
        self._plan: Plan | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Without the plan, which knows addresses: whoever has a copy lays its tensors out anew."""
        return {**self.__dict__, "_plan": None}

    @functools.cached_property
    def adaptive(self) -> bool:
        """Whether the friction is a variable, in all members."""
        found = {is_adaptive(group) for group in self.options}
        if len(found) > 1:
            raise ValueError("the members' steps are of different kinds: thermostat differs")
        return found.pop()

    # --- tensors ----------------------------------------------------------------------------

    def lay_out(self, tensors: Mapping[str, Tensor], state_of: StateOf, native: bool) -> None:
        """Divide the stacked parameters into buckets, and make their state."""
        owns = [self._merged(i, tensors[name]) for i, name in enumerate(self.names)]
        constraint = owns[0] if owns and owns[0] is not None else self._joint()
        group = {
            "params": [tensors[name] for name in self.names],
            "names": self.names,
            "constraint": constraint,
        }
        members = len(self.options)
        # The kernels know no adaptive thermostat; without them every parameter is a bucket.
        native = native and not self.adaptive
        self._plan = Plan(group, self._ordinals, state_of, native, members, owns)
        self.attach()

    def attach(self) -> None:
        """Make the state that the settings need, and join it."""
        initial = None
        if self.adaptive:
            numbers = [float(group["friction"]) for group in self.options]
            initial = torch.tensor(numbers, dtype=torch.float64)
        self.plan.attach_members(self.momentum, self.adaptive, initial)

    def _merged(self, index: int, tensor: Tensor) -> Constraint | None:
        found = [geometries[index] for geometries in self._geometries]
        owns = [own for own in found if own is not None]
        if len(owns) < len(found):
            return None
        try:
            return owns[0].for_members(owns, tensor.dim() - 1)
        except ValueError as error:
            raise ValueError(f"{self.names[index]}: {error}") from error

    def _joint(self) -> Constraint:
        constraints = [group["constraint"] for group in self.options]
        return constraints[0].for_members(constraints, 0)

    @property
    def plan(self) -> Plan:
        """What moves in a step."""
        assert self._plan is not None
        return self._plan

    @property
    def buckets(self) -> list[Bucket]:
        """The buckets of all parameters."""
        return self.plan.buckets

    def describe(self) -> list[dict[str, Any]]:
        """Plain values that identify the geometries."""
        return [bucket.constraint.describe() for bucket in self.buckets]

    # --- settings -----------------------------------------------------------------------------

    def set(self, options: Sequence[Mapping[str, Any]]) -> None:
        """Take over settings of each member, such as ``resolve`` returns."""
        for own, new in zip(self.options, options, strict=True):
            own.update({k: v for k, v in new.items() if k not in ("constraint", "seed")})
        self._forget()

    def check(self) -> None:
        """Refuse settings that cannot be one computation.

        Raises:
            ValueError: saying what differs.
        """
        if not self.adaptive and self.options:
            for first in (True, False):
                joined(self._owns(first))
        elif len({(group["scheme"], group["delayed_gradient"]) for group in self.options}) > 1:
            raise ValueError("the members' steps are of different kinds: scheme differs")

    @staticmethod
    def _own(group: Mapping[str, Any], first: bool) -> Recipe:
        return Recipe.of(dynamics(group), group["weight_decay"], first)

    def _owns(self, first: bool) -> list[Recipe]:
        return shared(lambda group: self._own(group, first), self.options, plain)

    def _recipe(self, first: bool) -> Recipe:
        if first not in self._recipes:
            self._recipes[first] = joined(self._owns(first))
        return self._recipes[first]

    @property
    def momentum(self) -> bool:
        """Whether there is a momentum."""
        return self.adaptive or self._recipe(False).momentum

    @functools.cached_property
    def rests(self) -> bool:
        """Whether no member moves, because every lr is 0."""
        return all(float(group["lr"]) <= FAINT for group in self.options)

    @functools.cached_property
    def _decays(self) -> bool:
        return any(group.get("decay_power") for group in self.options)

    def refresh(self) -> None:
        """Somebody has written to the settings: look at them again.

        Raises:
            ValueError, TypeError: naming the option.
        """
        self._forget()
        self.check()

    def _forget(self) -> None:
        """The settings have changed: what was worked out from them is so no longer."""
        self._recipes.clear()
        for name in ("rests", "_decays"):
            self.__dict__.pop(name, None)

    # --- the step -----------------------------------------------------------------------------

    def ready(self, gradients: Mapping[str, Tensor], seeds: Sequence[int], step: int) -> list[Plan]:
        """The plan of a step; none if all members rest."""
        if self.rests:
            return []
        plan, fresh = self._plan, step == 0
        assert plan is not None
        plan.seeds, plan.made = seeds, step
        if self.adaptive:
            plan.settings = self._adaptive()
            plan.recipes[fresh] = Recipe((), True, self._column("weight_decay"))
        else:
            plan.recipes[fresh] = self._recipe(fresh)
        for bucket in plan.buckets:
            bucket.fresh = fresh
            slopes = [gradients[name] for name in bucket.names]
            still = bucket.constraint.fallible
            bucket.gradients = [self._rested(slope) for slope in slopes] if still else list(slopes)
        return [plan]

    def _rested(self, slope: Tensor) -> Tensor:
        """The slope, with 0 for members that have diverged; they are noted."""
        good = finite_members(slope)
        if good is None:
            return slope
        self.resting = ~good if self.resting is None else self.resting | ~good
        return finite(slope)

    def _column(self, name: str) -> Scalar:
        values = [float(group[name]) for group in self.options]
        if len(set(values)) == 1:
            return values[0]
        return torch.tensor(values, dtype=torch.float64)

    def _adaptive(self) -> AdaptiveDynamics:
        scheme = dynamics(self.options[0]).scheme
        lr, temperature, coupling, driving_noise = map(self._column, COLUMNS)
        return AdaptiveDynamics(lr, temperature, coupling, driving_noise, scheme)

    def finish(self) -> Outcome:
        """A step has been made: count, and let step sizes decay."""
        outcome = Outcome() if self.rests else Outcome().joined(self.plan.outcome)
        self.iterations = outcome.iterations
        self.fallbacks += outcome.fallbacks
        for bucket in self.buckets:
            bucket.gradients = [None] * len(bucket.gradients)  # buckets are kept, gradients not
        if self._decays:
            for group in self.options:
                decay(group)
            self._forget()
        return outcome

    # --- members that go ------------------------------------------------------------------------

    def select(self, keep: Sequence[int]) -> None:
        """Keep some of the members; the tensors are laid out anew afterwards."""
        self.options = [self.options[i] for i in keep]
        self._geometries = [self._geometries[i] for i in keep]
        self.resting = None
        self._forget()


def finite(gradient: Tensor) -> Tensor:
    """The gradient with 0 for the members whose own is not finite.

    A member that has diverged rests until it is removed: it must not stop the others.
    """
    good = finite_members(gradient)
    if good is None:
        return gradient
    return torch.where(good.view(-1, *[1] * (gradient.dim() - 1)), gradient, 0.0)


def finite_members(stacked: Tensor) -> Tensor | None:
    """Which members have only finite numbers in a tensor [members, ...]; None: all of them.

    Example:
        >>> finite_members(torch.tensor([[0.0, 1.0], [2.0, torch.nan]]))
        tensor([ True, False])
    """
    if stacked.device.type == "cpu" and bool(stacked.sum().isfinite()):
        return None  # a sum has a NaN or an infinity if any of its terms has
    return stacked.isfinite().flatten(1).all(dim=1)


def groups_of(
    optimizers: Sequence[CoLA], names: Sequence[Mapping[Tensor, str]]
) -> list[MemberGroup]:
    """The members' groups as one each.

    Args:
        optimizers: one per member.
        names: the parameters' names in each member.

    Raises:
        ValueError: if the members' groups differ.
    """
    found, first = [], 0
    for index, group in enumerate(optimizers[0].param_groups):
        called = [names[0][p] for p in group["params"]]
        for optimizer, own in zip(optimizers, names, strict=True):
            if [own[p] for p in optimizer.param_groups[index]["params"]] != called:
                raise ValueError("the members' parameter groups must have the same parameters")
        trained = [i for i, p in enumerate(group["params"]) if p.requires_grad]
        if trained:
            options = [optimizer.param_groups[index] for optimizer in optimizers]
            owns = [optimizer._plans[index].owns for optimizer in optimizers]
            geometries = [[own[i] for i in trained] for own in owns]
            ordinals = [first + i for i in trained]
            found.append(MemberGroup([called[i] for i in trained], options, geometries, ordinals))
        first += len(group["params"])
    return found
