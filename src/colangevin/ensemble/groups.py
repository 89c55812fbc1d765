"""The members' parameter groups as one: stacked parameters, joined settings, one step."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor

from colangevin.constraints import Constraint, Outcome
from colangevin.constraints.base import Scalar
from colangevin.integrators.adaptive import AdaptiveDynamics
from colangevin.integrators.recipe import FAINT, Recipe, joined
from colangevin.integrators.scheme import parse
from colangevin.optimizers.cola import CoLA
from colangevin.optimizers.options import decays, dynamics, is_adaptive, resolve
from colangevin.optimizers.partitioned.methods import decay
from colangevin.optimizers.step.bucket import Bucket
from colangevin.optimizers.step.layout import StateOf
from colangevin.optimizers.step.plan import Plan
from colangevin.optimizers.violation import Violation, violation_of

One = TypeVar("One")
Made = TypeVar("Made")

ALIKE = ("direction", "rounding")
"""Options that are one for all members, from the beginning."""
COLUMNS = ("lr", "temperature", "coupling", "driving_noise")
STEP = ("lr", "momentum", "friction", "scheme", "delayed_gradient")
"""What a group knows of its step."""
OWN = ("params", "names", "param_names", "constraint", "seed")
"""What a group has of its own, and no recipe depends on."""


class MemberGroup:
    """One parameter group of all members.

    Args:
        names: of its parameters.
        groups: the options of each member's group.
        geometries: of each member's parameters; None for those of a joint constraint.
        ordinals: the places of the parameters in an optimizer.
    """

    def __init__(
        self,
        names: Sequence[str],
        groups: Sequence[dict[str, Any]],
        geometries: Sequence[Sequence[Constraint | None]],
        ordinals: Sequence[int],
    ) -> None:
        self.names, self._ordinals = list(names), list(ordinals)
        self.options = [dict(group) for group in groups]
        self._geometries = [list(own) for own in geometries]
        self.iterations = self.fallbacks = 0
        self.resting: Tensor | None = None  # members whose gradient was not finite
        self._recipes: dict[bool, Recipe] = {}
        self._kept: dict[str, Any] = {}
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
        constraint = owns[0] if owns else None
        if constraint is None:  # one for all parameters together
            joint = [group["constraint"] for group in self.options]
            constraint = joint[0].for_members(joint, 0)
        params = [tensors[name] for name in self.names]
        group = {"params": params, "names": self.names, "constraint": constraint}
        group.update({name: self._same(name) for name in ALIKE})
        # The kernels know no adaptive thermostat; without them every parameter is a bucket.
        native = native and not self.adaptive
        self._plan = Plan(group, self._ordinals, state_of, native, len(self.options), owns)
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
            return owns[0].for_members(owns, tensor.dim() - 1).on(tensor.device)
        except ValueError as error:
            raise ValueError(f"{self.names[index]}: {error}") from error

    def _same(self, name: str) -> Any:
        """An option that is one for all members, from the beginning."""
        found = [group[name] for group in self.options]
        if any(value != found[0] for value in found):
            raise ValueError(f"the members' steps are of different kinds: {name} differs")
        if self._kept.setdefault(name, found[0]) != found[0]:
            raise ValueError(
                f"{name}={found[0]} was set in an ensemble with {self._kept[name]}: it is chosen "
                "when the ensemble is made"
            )
        return found[0]

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
        """Take over settings of each member, such as ``wanted`` returns."""
        for own, new in zip(self.options, options, strict=True):
            own.update({k: v for k, v in new.items() if k not in ("constraint", "seed")})
        self.forget()

    def check(self) -> None:
        """Refuse settings that cannot be one computation.

        Raises:
            ValueError: saying what differs.
        """
        if self.options:
            for name in ALIKE:
                self._same(name)
        if not self.adaptive and self.options:
            self._recipe(True), self._recipe(False)
        elif len({(group["scheme"], group["delayed_gradient"]) for group in self.options}) > 1:
            raise ValueError("the members' steps are of different kinds: scheme differs")

    def _recipe(self, first: bool) -> Recipe:
        if first not in self._recipes:

            def own(group: Mapping[str, Any]) -> Recipe:
                return Recipe.of(dynamics(group), decays(group)[1], first)

            self._recipes[first] = joined(shared(own, self.options, plain))
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

    def forget(self) -> None:
        """The settings have changed: what was worked out from them is so no longer."""
        self._recipes.clear()
        for name in ("rests", "_decays"):
            self.__dict__.pop(name, None)

    # --- the step -----------------------------------------------------------------------------

    def ready(self, gradients: Mapping[str, Tensor], seeds: Sequence[int], step: int) -> list[Plan]:
        """The plan of a step; none if all members rest."""
        if self.rests:
            return []
        plan, fresh = self.plan, step == 0
        plan.seeds, plan.made = seeds, step
        if self.adaptive:
            scheme = dynamics(self.options[0]).scheme
            plan.settings = AdaptiveDynamics._make([*map(self._column, COLUMNS), scheme])
            plan.recipes[fresh] = Recipe((), True, self._column("weight_decay"))
        else:
            plan.recipes[fresh] = self._recipe(fresh)
        plan.directs = plan.direction is not None
        plan.coupled_decay = self._column("weight_decay") if plan.directs else 0.0
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
        same = len(set(values)) == 1
        return values[0] if same else torch.tensor(values, dtype=torch.float64)

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
            self.forget()
        return outcome

    def violation(self, state_of: StateOf) -> Violation:
        """The worst of the group over its members, and the residual of each."""
        parts = [(part, self.momentum) for bucket in self.buckets for part in bucket.singles()]
        counts = self.iterations, self.fallbacks
        return violation_of(parts if self.options else (), state_of, counts, len(self.options))

    # --- members that go ------------------------------------------------------------------------

    def select(self, keep: Sequence[int]) -> None:
        """Keep some of the members; the tensors are laid out anew afterwards."""
        self.options = [self.options[i] for i in keep]
        self._geometries = [self._geometries[i] for i in keep]
        self.resting = None
        self.forget()


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
    return stacked.isfinite().reshape(len(stacked), -1).all(dim=1)


def groups_of(
    optimizers: Sequence[CoLA], names: Sequence[Mapping[Tensor, str]]
) -> list[MemberGroup]:
    """The groups of the members' optimizers as one each, if they are of the same parameters."""
    found, first = [], 0
    for index, group in enumerate(optimizers[0].param_groups):
        called = [names[0][p] for p in group["params"]]
        for optimizer, own in zip(optimizers, names, strict=True):
            if [own[p] for p in optimizer.param_groups[index]["params"]] != called:
                raise ValueError("the members' parameter groups must have the same parameters")
        trained = [i for i, p in enumerate(group["params"]) if p.requires_grad]
        if trained:
            options = [optimizer.param_groups[index] for optimizer in optimizers]
            plans = [optimizer._view(index) for optimizer in optimizers]
            geometries = [[plan.owns[i] for i in trained] for plan in plans]
            ordinals = [first + i for i in trained]
            found.append(MemberGroup([called[i] for i in trained], options, geometries, ordinals))
        first += len(group["params"])
    return found


# --- settings --------------------------------------------------------------------------------


def wanted(
    named: Sequence[Mapping[str, Any]], groups: Sequence[Mapping[str, Any]], ready: bool
) -> list[dict[str, Any]]:
    """The settings that each member's group gets; what is not named, or None, stays as it is.

    Members with the same options share the work. ``ready``: the groups have a step already.

    Example:
        >>> group = {"lr": 0.25, "momentum": 0.9, "friction": None, "scheme": "OBA"}
        >>> found = wanted([{"temperature": 0.5}] * 2, [group] * 2, ready=True)
        >>> [settings["temperature"] for settings in found]
        [0.5, 0.5]
    """

    def one(pair: tuple[Mapping[str, Any], Mapping[str, Any]]) -> dict[str, Any]:
        given = {name: value for name, value in pair[0].items() if value is not None}
        rest = {k: v for k, v in pair[1].items() if k not in ("constraint", "seed", *STEP[:3])}
        if given.keys() & {*STEP, "step_size"}:
            return resolve(given, {**(step_of(pair[1]) if ready else {}), **rest})
        # An lr of 0 may come from a scheduler, but cannot be given.
        found = resolve(given, {"lr": 1.0, **rest})
        return {name: value for name, value in found.items() if name not in STEP}

    pairs = list(zip(named, groups, strict=True))
    return shared(one, pairs, lambda pair: (*pair[0].items(), plain(pair[1])))


def plain(group: Mapping[str, Any]) -> tuple[Any, ...]:
    """What tells the options of groups apart, but for what is its own.

    Example:
        >>> plain({"lr": 0.1, "seed": 3}) == plain({"lr": 0.1, "seed": 4})
        True
    """
    names = tuple(group)
    return names, _reader(names)(group)


@functools.lru_cache(maxsize=64)
def _reader(names: tuple[str, ...]) -> Callable[[Mapping[str, Any]], Any]:
    """A function that reads what is not a group's own: there may be hundreds of groups."""
    chosen = [name for name in names if name not in OWN]
    return operator.itemgetter(*chosen) if chosen else lambda group: ()


def shared(
    make: Callable[[One], Made], items: Sequence[One], key_of: Callable[[One], Hashable]
) -> list[Made]:
    """``make`` of each item, called once for those with one key, if keys can be compared.

    Example:
        >>> shared(lambda name: [name], ["a", "b", "a"], lambda name: name)
        [['a'], ['b'], ['a']]
    """
    known: dict[Hashable, Made] = {}
    found = []
    for item in items:
        try:
            key = key_of(item)
            if key not in known:
                known[key] = make(item)
            found.append(known[key])
        except TypeError:  # a value that is no number, which ``make`` takes or refuses
            found.append(make(item))
    return found


def step_of(group: Mapping[str, Any]) -> dict[str, Any]:
    """The step of a group as it was named: ``lr`` and ``momentum``, or in the paper's way.

    Example:
        >>> step_of({"lr": 0.25, "momentum": None, "friction": 2.0, "scheme": "BAOAB"})
        {'step_size': 0.5, 'friction': 2.0}
    """
    if group["momentum"] is not None:
        return {"lr": group["lr"], "momentum": group["momentum"]}
    friction, lr = float(group["friction"]), float(group["lr"])
    word = parse(group["scheme"], bool(group.get("delayed_gradient")))
    euler = math.isinf(friction) and not word.has_limit
    return {"step_size": lr if euler else math.sqrt(lr), "friction": friction}
