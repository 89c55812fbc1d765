"""Plans: what moves in a step of a group, from where, and by what.

A plan is made once, and serves as long as it holds: see ``question``. Then it is replaced by a new
one, made by the same code.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from colangevin.constraints import Constraint, Outcome, Unconstrained
from colangevin.constraints.base import Scalar
from colangevin.constraints.contract import check_contract
from colangevin.errors import ConstraintError, ConvergenceError
from colangevin.integrators.adaptive import AdaptiveDynamics
from colangevin.integrators.recipe import Recipe, stretch
from colangevin.integrators.scheme import Action
from colangevin.native import suits
from colangevin.optimizers.distributed.shards import ShardedWeight, whole_of
from colangevin.optimizers.options import own_direction, own_rounding
from colangevin.optimizers.step import place
from colangevin.optimizers.step.bucket import Bucket
from colangevin.optimizers.step.directing import direct
from colangevin.optimizers.step.execute import is_noisy, run_adaptive, run_formulas
from colangevin.optimizers.step.friction import FRICTION, share_friction
from colangevin.optimizers.step.kernels import kernel_for, knows
from colangevin.optimizers.step.layout import MASTER, REMEMBERED, STEP, StateOf
from colangevin.optimizers.step.noise import DRAWS
from colangevin.torch_compat import is_sharded, stamp, version_of

LARGE = 1 << 14
"""From this size on an elementwise parameter is a bucket of its own."""
HUGE = 1 << 17
"""From this size on any parameter is a bucket of its own."""
ELSEWHERE = 1 << 20
"""Likewise on an accelerator, of any geometry: to begin an operation there takes as long as an
operation with so many numbers, so that joining smaller parameters costs less than it saves."""
EMPTY: dict[str, Any] = {}
Marks = dict[Tensor, "tuple[object, ...]"]
"""What parameters were like when they were last known to be on their manifold."""


class Call(NamedTuple):
    """What a call of ``step()`` does, where that differs from a whole step.

    Attributes:
        share: which of how many equal stretches of the step.
        gradients: in the place of the parameters' own, with the weight decay in them.
        rates: the learning rates of the groups, in the place of their own.
        actions: in the place of the groups' own, for parameters without momentum.
        only: the groups that take part; None for all.
        counted: whether the step ends with this call.
    """

    share: tuple[int, int] = (0, 1)
    gradients: Mapping[Tensor, Tensor] | None = None
    rates: Sequence[float] | None = None
    actions: tuple[Action, ...] | None = None
    only: Sequence[int] | None = None
    counted: bool = True


WHOLE = Call()
"""A whole step with the gradients as they stand."""


class Plan:
    """What moves in the steps of a group.

    Args:
        group: the parameter group.
        ordinals: the places of its parameters in the optimizer.
        state_of: the optimizer's state.
        native: whether the C kernels may be used.
        members: how many copies of each parameter are stacked, in an ensemble.
        owns: the geometry of each stacked parameter, in an ensemble.
        captured: whether a graph captures the steps, which then read nothing from a device.

    Attributes:
        owns: the geometry of each parameter; None without entries, or with a joint constraint.
        buckets: what moves together, once it is attached.
        active: the parameters that move.
        friction: ξ of an adaptive group, which is state of all of its parameters.
        outcome: what happened in the projections of the last step.

    Raises:
        ConstraintError: if the constraint cannot hold for one of the parameters.
    """

    settings: Any = None
    outcome: Outcome | None = None
    share = WHOLE.share
    seeds: Sequence[int] = ()
    first = 0  # the place of its first parameter
    made: int | None = None  # steps that all members of an ensemble have made
    addressed = adaptive = momentum = directs = rests = False
    weight_decay: Scalar = 0.0
    coupled_decay: Scalar = 0.0  # what the direction sees of the weight decay
    _splits = _attached = _watches = False
    _stale: Sequence[Tensor] = ()
    _versions: Sequence[int] = ()
    _call = WHOLE
    _size = 0
    _others: object = None
    _numbers: object = None
    _known: Mapping[str, Any] = EMPTY
    _read: Callable[[Any], Any] = operator.itemgetter("lr")

    def __init__(
        self,
        group: dict[str, Any],
        ordinals: Sequence[int],
        state_of: StateOf,
        native: bool = False,
        members: int | None = None,
        owns: Sequence[Constraint | None] | None = None,
        captured: bool = False,
    ) -> None:
        self.captured = captured
        self.constraint: Constraint = group["constraint"]
        self.parameters: list[Tensor] = list(group["params"])
        self._ordinals, self._names = list(ordinals), place.names_of(group)
        self.state_of, self._native, self._members = state_of, native, members
        self.direction, self.rounding = own_direction(group), own_rounding(group)
        place.check_tensors(group)
        self.owns = [self._bound(i) for i in range(len(ordinals))] if owns is None else list(owns)
        self.shards: list[ShardedWeight | None] = []
        self._here = self.parameters
        if any(map(is_sharded, self.parameters)):
            each = zip(self.parameters, self.owns, strict=True)
            self.shards = [ShardedWeight(p, own) if is_sharded(p) else None for p, own in each]
            found = zip(self.parameters, self.shards, strict=True)
            self._here = [p if shard is None else shard.tensor for p, shard in found]
        self._joint = self.constraint  # bound to all parameters, if it is joint
        if self.constraint.joint:
            skip = 0 if members is None else 1
            self._joint = self.constraint.bind([p.shape[skip:] for p in self.parameters])
        pairs = enumerate(self.owns)
        self._keys = [None if own is None else self._key(index, own) for index, own in pairs]
        self.buckets: list[Bucket] = []
        self.recipes: dict[bool, Recipe] = {}
        self.active: list[int] = []
        self.friction = torch.zeros(())
        self.fallible = self.constraint.fallible and not captured
        if self.direction is not None:
            self.fallible = self.fallible or not self.direction.trusted
            for name, own, parameter in zip(self._names, self.owns, self.parameters, strict=True):
                shape = parameter.shape[0 if members is None else 1 :]
                self.direction.check(name, shape, own or self.constraint)
        adaptive = group.get("thermostat") == "adaptive"  # the ensemble keeps options elsewhere
        self._initial = group["friction"] if adaptive else None
        self._watched: list[Any] = []

    def _bound(self, index: int) -> Constraint | None:
        """The geometry of one parameter; None for one without entries."""
        parameter, constraint = self.parameters[index], self.constraint
        if constraint.joint or parameter.numel() == 0:
            return None
        try:
            entry = self.state_of.setdefault(parameter, {})
            asks = type(constraint).for_weight is not Constraint.for_weight
            weight = whole_of(parameter) if asks and is_sharded(parameter) else parameter
            own = constraint.for_weight(weight, entry).bind([parameter.shape]).on(parameter.device)
            if not type(own).__module__.startswith("colangevin."):  # the laws check the library's
                check_contract(own, parameter.shape, parameter.device)
            return own._with(captured=True) if self.captured else own
        except ConstraintError as error:
            raise ConstraintError(f"{self._names[index]}: {error}") from error

    @property
    def remembered(self) -> list[str]:
        """The entries of the state that the direction keeps, in the weight's shape."""
        return [REMEMBERED + name for name in (self.direction.keeps if self.direction else ())]

    # --- buckets ----------------------------------------------------------------------------

    def _bucket(self, indices: Sequence[int], joint: Constraint | None = None) -> Bucket:
        shards = [self.shards[i] for i in indices] if self.shards else []
        parts = [shard.constraint for shard in shards if shard is not None]
        owns = [own for own in parts or [self.owns[i] for i in indices] if own is not None]
        return Bucket(
            joint or owns[0],
            [self._here[i] for i in indices],
            [self._names[i] for i in indices],
            [self._ordinals[i] for i in indices],
            self._members,
            shards if any(shards) else (),
            self.direction,
            self.rounding == "stochastic",
            self.captured,
            () if joint else owns,
        )

    def _all(self) -> list[tuple[list[int], Bucket]]:
        everyone = list(range(len(self.parameters)))
        return [(everyone, self._bucket(everyone, self._joint))]

    def divide(self, indices: Sequence[int]) -> list[tuple[list[int], Bucket]]:
        """The buckets of some parameters, or of all of them if the constraint is joint."""
        if self.constraint.joint:
            return self._all() if indices else []
        alike: dict[tuple[object, ...], list[int]] = {}
        for index in indices:
            key = self._keys[index]
            if key is not None:
                alike.setdefault(key, []).append(index)
        return [(found, self._bucket(found)) for found in alike.values()]

    def _key(self, index: int, own: Constraint) -> tuple[object, ...]:
        """Parameters with equal keys share a bucket."""
        parameter, stacked = self.parameters[index], self._members is not None
        shape = parameter.shape[1:] if stacked else parameter.shape
        key = own.batch_key(shape)
        if self.direction is not None and self.direction.whole:  # equal shapes are one computation
            key = None if key is None else (*key, parameter.shape)
        elif not (self._native and knows(own, shape, bool(self.shards)) and suits(parameter)):
            size = (LARGE if own.elementwise else HUGE) if parameter.is_cpu else ELSEWHERE
            if parameter.numel() >= size or (own.elementwise and stacked):
                key = None  # large enough by itself, and joining would copy
        shard = self.shards[index] if self.shards else None
        if key is None:
            return index, None
        return parameter.dtype, parameter.device, *(() if shard is None else shard.key), key

    def singles(self, indices: Sequence[int]) -> list[tuple[list[int], Bucket]]:
        """One bucket per parameter, or one for all of them if the constraint is joint."""
        if self.constraint.joint:
            return self._all() if indices else []
        return [([i], self._bucket([i])) for i in indices if self.owns[i] is not None]

    def settle(self, strict: bool, frozen: bool = False) -> list[place.Placement]:
        """What must move for the parameters to be on the manifold; nothing is changed.

        Args:
            strict: raise instead of moving.
            frozen: whether parameters that need no gradient are checked, too.
        """
        awake = [i for i, p in enumerate(self.parameters) if frozen or p.requires_grad]
        found = [place.placement_of(bucket, strict) for _, bucket in self.singles(awake)]
        return [placed for placed in found if placed is not None]

    # --- options ----------------------------------------------------------------------------

    def recipe(self, fresh: bool) -> Recipe:
        """What a step does to parameters in their first step, or in a later one."""
        found = self.recipes.get(fresh)
        if found is None:
            if isinstance(self.settings, AdaptiveDynamics):
                found = Recipe((), True, self.weight_decay)
            elif self._call.actions is not None:
                found = Recipe(self._call.actions, False)
            else:
                found = Recipe.of(self.settings, self.weight_decay, fresh, self.share)
            self.recipes[fresh] = found
        return found

    def first_draw(self, fresh: bool) -> int:
        """The number of the first draw: as in the whole call, if the noise is in one stretch."""
        index, parts = self.share
        if index == 0:
            return 0
        if isinstance(self.settings, AdaptiveDynamics):
            scheme = self.settings.scheme
            whole: Sequence[Any] = scheme.first if fresh else scheme.moves
        else:
            whole = self.settings.actions(fresh)
        earlier = (action for i in range(index) for action in stretch(whole, i, parts))
        return index * DRAWS if any(map(is_noisy, earlier)) else 0

    # --- making -----------------------------------------------------------------------------

    def moving(self, given: Mapping[Tensor, Tensor] | None = None) -> list[int]:
        """The parameters that take part in a step.

        A joint constraint moves all of its parameters as soon as one of them has a gradient.

        Raises:
            TypeError: for sparse gradients.
        """
        found = []
        for index, parameter in enumerate(self.parameters):
            gradient = parameter.grad if given is None else given.get(parameter)
            if gradient is None or parameter.numel() == 0:
                continue
            if gradient.layout is not torch.strided or not gradient.is_floating_point():
                _refuse_gradient(self._names[index], gradient)
            found.append(index)
        return list(range(len(self.parameters))) if found and self.constraint.joint else found

    def attach(
        self, group: dict[str, Any], marks: Marks, strict: bool, undo: list[Callable[[], None]]
    ) -> None:
        """Find what moves and from where; weights that were written to are put on the manifold.

        Args:
            group: the options.
            marks: of the parameters.
            strict: refuse weights that are off the manifold.
            undo: is given what puts weights back.

        Raises:
            TypeError, ConstraintError: for gradients or weights that are wrong.
        """
        self.active = self.moving(self._call.gradients)
        self._watches = not isinstance(self.constraint, Unconstrained)
        for shard in [self.shards[i] for i in self.active] if self.shards else ():
            if shard is not None:
                shard.fetch()
        if self._watches:
            stale = [i for i in self.active if marks.get(p := self.parameters[i]) != stamp(p)]
            self._stale = [self.parameters[i] for i in stale]
            self._put_back(group, stale, strict, undo)
        if self.rounding == "stochastic":
            self.let_go_of(MASTER, undo)
        for indices, bucket in self.divide(self.active):
            fresh = bucket.prepare(self.state_of, self.momentum)
            if 0 < len(fresh) < len(indices):  # a first step may differ from later ones
                self._splits = True
                old = [i for i in range(len(indices)) if i not in fresh]
                self._add(bucket.part(fresh), True)
                self._add(bucket.part(old), False)
            else:
                self._add(bucket, bool(fresh))
        if self.adaptive:
            self.share_friction(group["friction"])
        else:  # a group that becomes adaptive again starts from its option
            self.let_go_of(FRICTION, undo)

    def let_go_of(self, prefix: str, undo: list[Callable[[], None]]) -> None:
        """Take the entries out of the state whose name begins so; ``undo`` puts them back."""
        for entry in (self.state_of.get(p, EMPTY) for p in self.parameters):
            for key in [k for k in entry if k.startswith(prefix)]:
                undo.append(functools.partial(entry.__setitem__, key, entry.pop(key)))

    def share_friction(self, initial: object) -> None:
        """Let all parameters that have state have the same ξ; it is made if none has one."""
        own = [p for p in self.parameters if STEP in self.state_of.get(p, EMPTY)]
        if own:
            entries = [self.state_of[p] for p in own]
            self.friction = share_friction(entries, initial, own[0].device)

    def attach_members(self, momentum: bool, adaptive: bool, initial: Tensor | None) -> None:
        """Find what moves in an ensemble: everything, and it stays where it is."""
        self.momentum, self.adaptive, self.buckets = momentum, adaptive, []
        for _, bucket in self.divide(range(len(self.parameters))):
            bucket.prepare(self.state_of, momentum)
            self._add(bucket, False)
        if adaptive:
            self.share_friction(initial)

    def _add(self, bucket: Bucket, fresh: bool) -> None:
        bucket.fresh = fresh
        kind = kernel_for(bucket) if self._native and not self.adaptive else None
        # With noise the formulas take over from the kernels where a parameter lies in parts.
        bucket.attach(self.state_of, self.momentum, joined=kind is None or bool(bucket.shards))
        bucket.kernel = None if kind is None else kind(bucket, self.momentum)
        self.buckets.append(bucket)

    def _put_back(
        self,
        group: dict[str, Any],
        stale: Sequence[int],
        strict: bool,
        undo: list[Callable[[], None]],
    ) -> None:
        """Put parameters that were written to back on the manifold, with a slack that fits."""
        placements = []
        for _, bucket in self.singles(stale):
            bucket.prepare(self.state_of, self.momentum)
            placed = place.placement_of(bucket, strict)
            state = bucket.look(self.state_of, momentum=False)
            position = state.position if placed is None else placed[1]
            slack = place.lifted(bucket, position)
            same = slack is None or (state.slack is not None and torch.equal(slack, state.slack))
            if placed is None and same:
                continue
            placements += [] if placed is None else [placed]
            undo.append(bucket.snapshot())
            bucket.move_to(self.state_of, position, slack)
        place.announce(group, placements)

    # --- a step ---------------------------------------------------------------------------------

    def snapshot(self) -> Callable[[], None]:
        """Keep what a step writes over; returns what puts it back."""
        kept = [bucket.snapshot() for bucket in self.buckets]
        friction = self.friction.clone() if self.adaptive and self.buckets else None

        def put_back() -> None:
            if friction is not None:
                self.friction.copy_(friction)
            for restore in kept:
                restore()

        return put_back

    def run(self) -> None:
        """Make the step, in place."""
        self.outcome = None
        if self.adaptive and self.buckets:
            self.outcome = run_adaptive(self)
            return
        seeds, made = self.seeds, self.made
        if self.captured:
            self.recipes = {}  # what an lr in a tensor becomes is a part of the graph
        for bucket in self.buckets:
            fresh, kernel = bucket.fresh, bucket.kernel
            recipe = self.recipes.get(fresh) or self.recipe(fresh)
            if made is None:  # counts are not read where a graph captures the steps
                steps = bucket.counts if self.captured else bucket.counts.tolist()
            else:
                steps = [made] * len(bucket.parameters)
            draw = self.first_draw(fresh) if self.share[0] else 0
            try:
                native = self.directs and kernel is not None and kernel.directs(recipe)
                if self.directs and not native:
                    direct(bucket, self.coupled_decay, steps)
                # Kernels count the indices of the noise from the beginning of what they work on.
                if kernel is None or (bucket.shards and any(map(is_noisy, recipe.actions))):
                    found = run_formulas(bucket, recipe, seeds, steps, draw, self.share[0])
                else:
                    addressed = self.addressed and (native or not self.directs)
                    coupled = self.coupled_decay if native else None
                    found = kernel.run(recipe, seeds, steps, draw, addressed, coupled)
            except ConvergenceError as error:
                raise ConvergenceError(f"{bucket.name}: {error}") from error
            if found is not None:
                self.outcome = found.joined(self.outcome)

    def steps(self, bucket: Bucket) -> Sequence[int] | Tensor:
        """How many steps each parameter of a bucket has made."""
        if self.made is not None:
            return [self.made] * len(bucket.parameters)
        return bucket.counts if self.captured else bucket.counts.tolist()

    def finish(self, counted: bool) -> bool:
        """A step has been made, and its counts gone up if it was ``counted``.

        Returns:
            Whether the plan may serve again: not where it has divided parameters by their age.
        """
        for bucket in self.buckets:
            bucket.push()
            bucket.fresh = bucket.fresh and not counted
        self._let_go()
        if self._watches:
            self._versions = list(map(version_of, self.parameters))
        self._stale = []
        return not (self._splits and counted)

    def _let_go(self) -> None:
        """A plan is kept, gradients are not."""
        for bucket in self.buckets:
            bucket.gradients = [None] * len(bucket.gradients)

    def leave(self, marks: Marks) -> None:
        """The plan does not serve any more: note what the parameters were like after its steps."""
        if self._attached and self._watches:
            for i in self.active:
                own, here, dtype, where = self._watched[i][:4]
                if where is None or here is not own:
                    where = own.data_ptr(), own.stride(), own.shape
                marks[own] = (self._versions[i], where[0], dtype, where[1])
        self._attached = False

    def rolled_back(self, marks: Marks) -> None:
        """A step has failed: what was on the manifold before it is so again."""
        if self._watches:
            self._versions = list(map(version_of, self.parameters))
        self.leave(marks)
        for own in self._stale:
            marks.pop(own, None)
        self._let_go()


def _refuse_gradient(name: str, gradient: Tensor) -> None:
    if gradient.layout is not torch.strided:
        raise TypeError(f"{name} has a sparse gradient; CoLA takes dense ones only")
    raise TypeError(
        f"{name} has a gradient of type {gradient.dtype}; CoLA takes real floating-point ones"
    )
