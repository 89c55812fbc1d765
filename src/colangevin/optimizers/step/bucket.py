"""Buckets: parameters that move together, with their state.

This file and ``layout`` are the one place that knows how parameters and state lie in memory.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from colangevin.constraints import Constraint, State
from colangevin.constraints.base import Scalar
from colangevin.integrators.recipe import direction
from colangevin.optimizers.step.layout import (
    HALF,
    MASTER,
    MOMENTUM,
    REMEMBERED,
    SINCE,
    SLACK,
    SLACK_MOMENTUM,
    STEP,
    WRITTEN,
    Layout,
    StateOf,
)
from colangevin.random import rounded_at_random
from colangevin.torch_compat import copy_all

if TYPE_CHECKING:
    from colangevin.optimizers.directions import Direction
    from colangevin.optimizers.distributed.shards import ShardedWeight

SPARE = 1 << 17
"""Up to so many numbers the copies of a bucket that may be put back keep their memory."""


class Bucket(Layout):
    """Parameters of one group whose batches are concatenated, with their state.

    Once it is attached, the momenta, slacks and step counts of all parameters lie in one tensor
    each, and the entries of the optimizer's state are views of it. So a step need not gather them.
    The position is the parameter itself if there is only one, else it is gathered before and
    copied back after a step.

    Args:
        constraint: these are as for a ``Layout``.
        parameters: likewise.
        names: likewise.
        ordinals: likewise.
        members: likewise.
        shards: likewise.
        direction: takes the place of the gradient.
        rounds: whether weights in half precision are rounded at random, and have no float32 copy.
        captured: whether a graph captures the steps: counts are then where the parameters are.
        owns: as for a ``Layout``.

    Attributes:
        gradients: of the parameters as they have them, for the step that is being made.
        addresses: where the gradients lie, if kernels can read them there.
        kernel: the C kernel that moves it, if there is one.
        counts: how many steps each parameter has made.
        home: the state, where its position is the parameter itself.
        fresh: whether the parameters have yet to make their first step.
    """

    def __init__(
        self,
        constraint: Constraint,
        parameters: Sequence[Tensor],
        names: Sequence[str],
        ordinals: Sequence[int],
        members: int | None = None,
        shards: Sequence[ShardedWeight | None] = (),
        direction: Direction | None = None,
        rounds: bool = False,
        captured: bool = False,
        owns: Sequence[Constraint] = (),
    ) -> None:
        super().__init__(constraint, parameters, names, ordinals, members, shards, owns)
        self.direction, self.captured = direction, captured
        half = self.parameters[0].dtype in HALF
        self.rounds, self._has_master = half and rounds, half and not rounds
        own = () if direction is None else (REMEMBERED + name for name in direction.keeps)
        self._remembered = tuple(own)
        self.keys = WRITTEN + self._remembered
        self.gradients: list[Tensor | None] = [None] * len(self.parameters)
        self.addresses = array("q", bytes(8 * len(self.parameters)))
        self.kernel: Any = None
        self.counts = torch.zeros(0, dtype=torch.int64)
        self.fresh = False
        self._entries: list[dict[str, Any]] = []
        self._since: Any = []  # the steps in which the parameters got their direction
        self._constants: dict[tuple[int, ...], Tensor] = {}
        self._recalls = constraint.derived and not (half or members or shards)
        self._position: Tensor | None = None
        self._state: State | None = None
        self._bound = self._lies_there = False
        self.home: State | None = None
        self._spare: list[Tensor] = []

    def part(self, indices: Sequence[int]) -> Bucket:
        """Some of the parameters."""

        def some(values: Sequence[Any]) -> list[Any]:
            return [values[i] for i in indices] if values else []

        owns = some(self._owns)
        first = owns[0] if owns else self.constraint
        return Bucket(
            *(first, some(self.parameters), some(self.names), some(self.ordinals)),
            members=self.members,
            shards=some(self.shards),
            direction=self.direction,
            rounds=self.rounds,
            captured=self.captured,
            owns=owns,
        )

    def singles(self) -> list[Bucket]:
        """The parameters one by one, or all of them if the constraint is joint."""
        count = len(self.parameters)
        if self.constraint.joint:
            return [self.part(range(count))]
        return [self.part([i]) for i in range(count)]

    # --- state ----------------------------------------------------------------------------

    def _get(self, index: int, key: str) -> Tensor:
        """An entry of a parameter's state: the part of it that is here."""
        stored: Tensor = self._entries[index][key]
        shard = self.shards[index] if self.shards else None
        if shard is None:
            return stored
        kept, local = shard.unwrapped(key, stored)
        if kept is not stored:
            self._entries[index][key] = kept
        return local

    def _set(self, index: int, key: str, value: Tensor) -> None:
        shard = self.shards[index] if self.shards else None
        self._entries[index][key] = value if shard is None else shard.wrapped(key, value)

    @property
    def _keepers(self) -> range:
        """The parameters that keep a slack: the first one does for all of a joint constraint."""
        return range(1 if self.constraint.joint else len(self.parameters))

    @torch.no_grad()
    def prepare(self, state_of: StateOf, momentum: bool) -> list[int]:
        """Make the entries of the state that are not there yet, for weights on the manifold.

        Returns:
            The parameters that have yet to make their first step.
        """
        dtype, fresh = self.dtype, []
        self._entries = entries = [state_of.setdefault(owner, {}) for owner in self.owners]
        for index, (parameter, entry) in enumerate(zip(self.parameters, entries, strict=True)):
            lacking = momentum and MOMENTUM not in entry
            if STEP not in entry:
                entry[STEP] = torch.zeros((), dtype=torch.int64)
            for key in (STEP, REMEMBERED + SINCE) if self.captured else ():
                if key in entry:
                    entry[key] = entry[key].to(parameter.device)
            for key in self.keys:
                if key in entry and entry[key].dtype is not dtype:
                    entry[key] = entry[key].to(dtype)  # the parameter had another
            self._remember(index, entry)
            if self._has_master and MASTER not in entry:
                self._set(index, MASTER, parameter.detach().to(dtype).contiguous())
            if lacking:
                shape, device = parameter.shape, parameter.device
                self._set(index, MOMENTUM, torch.zeros(shape, dtype=dtype, device=device))
            if lacking or int(entry[STEP]) == 0:
                fresh.append(index)
        for index in self._keepers:
            if not self._prepare_slack(index, momentum):
                break
        return fresh

    def _remember(self, index: int, entry: dict[str, Any]) -> None:
        """Make what the direction keeps of a parameter, where it is missing."""
        if self.direction is not None and REMEMBERED + SINCE not in entry:
            entry[REMEMBERED + SINCE] = entry[STEP].clone()
        own = self.parameters[index]
        for key in self._remembered:
            if key not in entry:
                self._set(index, key, torch.zeros(own.shape, dtype=self.dtype, device=own.device))

    def _prepare_slack(self, index: int, momentum: bool) -> bool:
        """Whether there is a slack, which is made where it is missing."""
        entry, whole = self._entries[index], not self.constraint.elementwise
        if SLACK in entry and (SLACK_MOMENTUM in entry or not (momentum and whole)):
            return True
        if self.constraint.joint:
            position = self.gather(self.parameters)
        else:
            position = self.to_rows(self.parameters[index]).to(self.dtype)
        slack = self.own(index).lift(position)
        if slack is None:
            return False
        if SLACK not in entry:
            own = slack if whole else self.from_rows(slack, index)
            self._set(index, SLACK, own.clone(memory_format=torch.contiguous_format))
        if momentum and whole and SLACK_MOMENTUM not in entry:
            self._set(index, SLACK_MOMENTUM, torch.zeros_like(self._get(index, SLACK)))
        return True

    def attach(self, state_of: StateOf, momentum: bool, joined: bool = True) -> None:
        """Make the entries of the state, which must be there, views of what all have together.

        Args:
            state_of: the optimizer's state.
            momentum: whether there is one.
            joined: False if a kernel works on the entries themselves: then only counts are joined.
        """
        self._entries = [state_of[owner] for owner in self.owners]
        self._bound = True
        if self.direction is not None:
            firsts = [entry[REMEMBERED + SINCE] for entry in self._entries]
            self._since = torch.stack(firsts) if self.captured else list(map(int, firsts))
        self.counts = torch.stack([entry[STEP] for entry in self._entries])
        for entry, view in zip(self._entries, self.counts.unbind(), strict=True):
            entry[STEP] = view
        if not joined:
            return
        self._state = self._join(momentum)
        self.home = self._state if self._lies_there else None
        for key, parts in self._scattered(self._state):
            for index, part in enumerate(parts):
                if self._get(index, key).data_ptr() != part.data_ptr():
                    self._set(index, key, part)

    def look(self, state_of: StateOf, momentum: bool) -> State:
        """The state as it is now; the entries stay what they are, also in a ``write``."""
        self._entries = [state_of[owner] for owner in self.owners]
        self._bound = False
        self.counts = torch.stack([entry[STEP] for entry in self._entries])
        self._state = self._join(momentum)
        return self.read()

    def _join(self, momentum: bool) -> State:
        """The state of all parameters; the position is read in each step."""
        count, weight = len(self.parameters), self.to_rows(self.parameters[0])
        same = weight.data_ptr() == self.parameters[0].data_ptr()
        alone = count == 1 and same and weight.dtype is self.dtype
        self._lies_there = alone and not self.captured  # a compiler takes no views from outside
        self._position = weight if self._lies_there else None
        slack, slack_momentum = self._joined(SLACK), None
        if momentum and slack is not None:
            slack_momentum = self._joined(SLACK_MOMENTUM)
        momenta = [self._get(i, MOMENTUM) for i in range(count)] if momentum else []
        return State(weight, self.gather(momenta) if momentum else None, slack, slack_momentum)

    def contiguous(self, index: int, key: str) -> Tensor | None:
        """An entry of the state, if there is one, as the kernels need it."""
        if key not in self._entries[index]:
            return None
        stored = self._get(index, key)
        plain = stored.to(self.parameters[index].dtype).contiguous()
        if plain is not stored:
            self._set(index, key, plain)
        return plain

    def part_from(self, staying: Collection[Tensor]) -> None:
        """Give the state of parameters that stay behind memory of their own.

        As views they would keep the memory of all that they were joined with.
        """
        if self._state is None or len(self.parameters) == 1:
            return
        for index, owner in enumerate(self.owners):
            if owner not in staying:
                for key in self.keys:
                    if key in self._entries[index]:
                        self._set(index, key, self._get(index, key).clone())

    @property
    def slack(self) -> Tensor | None:
        """The slacks of all parameters as they are stored."""
        return self._joined(SLACK)

    def _joined(self, key: str) -> Tensor | None:
        if key not in self._entries[0]:
            return None
        stored = [self._get(index, key) for index in self._keepers]
        if self.constraint.elementwise:
            return self.gather(stored)
        return stored[0] if len(stored) == 1 else torch.cat(stored)

    def _slack_parts(self, slack: Tensor) -> list[Tensor]:
        """A slack by parameter: in the weight's shape if elementwise, else as the batch has it."""
        if self.constraint.elementwise:
            return self.scatter(slack)
        if self.constraint.joint or len(self.parameters) == 1:
            return [slack]  # the first parameter of a joint constraint keeps it
        return list(slack.split(self.rows))

    def _scattered(self, state: State) -> list[tuple[str, list[Tensor]]]:
        """What a state has besides positions, by the name of the entry and by parameter."""
        found = []
        if state.momentum is not None:
            found.append((MOMENTUM, self.scatter(state.momentum)))
        if state.slack is not None:
            found.append((SLACK, self._slack_parts(state.slack)))
        if state.slack_momentum is not None:
            found.append((SLACK_MOMENTUM, self._slack_parts(state.slack_momentum)))
        return found

    def constant(self, numbers: Sequence[int]) -> Tensor:
        """Numbers where the parameters are, which are brought there once."""
        key = tuple(numbers)
        if key not in self._constants:
            self._constants[key] = torch.tensor(key, device=self.parameters[0].device)
        return self._constants[key]

    # --- reading and writing ----------------------------------------------------------------

    def read(self) -> State:
        """The state of a bucket that is attached."""
        state = self._state
        assert state is not None
        if self._lies_there:
            return state
        if self.captured:
            return state._replace(position=self.gather(self.weights()))
        # A plan that holds knows that the weights are what the last step made of their slack.
        if self._position is None or not self._recalls:
            self._position = self.gather(self.weights(), out=self._position)
        return state._replace(position=self._position)

    def weights(self) -> list[Tensor]:
        """The weights in the precision of the work.

        What a user has written to a half-precision parameter since the last step counts; else its
        float32 weights do, where it has any.
        """
        if not self._has_master:
            return list(self.parameters)
        found = []
        for index, parameter in enumerate(self.parameters):
            weight, master = parameter.detach(), self._get(index, MASTER)
            kept = self.constraint.narrow(master, weight.dtype) == weight
            found.append(torch.where(kept, master, weight.to(master.dtype)))
        return found

    @torch.no_grad()
    def write(self, new: State, chances: Sequence[Tensor] | None = None) -> None:
        """Write a new state, which may be the one that ``read`` gave, changed in place.

        Args:
            new: the state.
            chances: for weights that are rounded at random, numbers from 0 to 1 in their shapes.
        """
        old = self._state
        assert old is not None
        if not self._lies_there:
            self._write_positions(self.scatter(new.position), chances)
            if chances is not None and new.slack is not None:  # that of the rounded weights
                position = self.gather(self.parameters)
                new = new._replace(slack=self.constraint.lift_again(position, new.slack))
        elif new.position is not self._position:
            old.position.copy_(new.position)
        if self._bound:
            for target, value in zip(old[1:4], new[1:4], strict=True):
                if target is not None and value is not None and target is not value:
                    target.copy_(value)
            return
        for key, parts in self._scattered(new):
            for index, part in enumerate(parts):
                self._get(index, key).copy_(part)

    def _write_positions(self, parts: list[Tensor], chances: Sequence[Tensor] | None) -> None:
        for index, (parameter, part) in enumerate(zip(self.parameters, parts, strict=True)):
            if self._has_master:
                self._get(index, MASTER).copy_(part)
            elif chances is not None:
                part = rounded_at_random(part, parameter.dtype, chances[index])
            if self._has_master or self.rounds:  # a bound holds for what is rounded, too
                parts[index] = self.constraint.narrow(part, parameter.dtype)
        copy_all(self.parameters, parts)

    @torch.no_grad()
    def move_to(self, state_of: StateOf, position: Tensor, slack: Tensor | None = None) -> None:
        """Put the weights, and their slack, somewhere else, before there is a step."""
        self._entries = [state_of.setdefault(owner, {}) for owner in self.owners]
        parts = self.scatter(position)
        for index, (parameter, part) in enumerate(zip(self.parameters, parts, strict=True)):
            if self._has_master:
                self._set(index, MASTER, part.clone())
            if self._has_master or self.rounds:
                parts[index] = self.constraint.narrow(part, parameter.dtype)
        copy_all(self.parameters, parts)
        if slack is not None:
            for index, part in enumerate(self._slack_parts(slack)):
                self._get(index, SLACK).copy_(part)
        self.push()

    def globalised(self, parts: Sequence[Tensor]) -> list[Tensor]:
        """Parts of tensors of the parameters' shapes as tensors that know the whole."""
        shards = self.shards or [None] * len(parts)
        pairs = zip(shards, parts, strict=True)
        return [part if shard is None else shard.wrapped(MOMENTUM, part) for shard, part in pairs]

    def slopes(self) -> list[Tensor]:
        """The gradients of what is here.

        Without a gradient of its own, a parameter moves only with a joint constraint.
        """
        found = []
        for index, (own, parameter) in enumerate(zip(self.gradients, self.parameters, strict=True)):
            if own is None:
                found.append(torch.zeros_like(parameter))
            else:
                found.append(self.localised(index, own) if self.shards else own)
        return found

    def memories(self) -> list[dict[str, Tensor]]:
        """What the direction keeps of each parameter, by its own names."""
        count = range(len(self.parameters))
        return [{k[len(REMEMBERED) :]: self._get(i, k) for k in self._remembered} for i in count]

    def ages(self, steps: Sequence[int] | Tensor) -> Sequence[Any]:
        """How many steps the direction has made for each parameter, with the one to come."""
        if isinstance(steps, Tensor):
            return (steps - self._since + 1).unbind()
        return [step - first + 1 for step, first in zip(steps, self._since, strict=True)]

    def decayed(
        self, slopes: Sequence[Tensor], weights: Sequence[Tensor], weight_decay: Scalar
    ) -> list[Tensor]:
        """Gradients of all parameters, with the weight decay's share."""
        pairs = zip(slopes, weights, strict=True)
        return [self.force(g, w, self._per_weight(weight_decay, w)) for g, w in pairs]

    def _per_weight(self, number: Scalar, weight: Tensor) -> Scalar:
        """A number for a weight, or one per member in its shape."""
        if not isinstance(number, Tensor):
            return number
        return number.to(weight.device, self.dtype).view(-1, *[1] * (weight.dim() - 1))

    def force(self, slope: Tensor, position: Tensor, weight_decay: Scalar) -> Tensor:
        """What a gradient becomes before it kicks: here, and nowhere else.

        Args:
            slope: the gradient of the bucket, or of a block of it.
            position: where it was taken.
            weight_decay: of the group, one number or one per member.
        """
        return direction(slope, position, weight_decay)

    # --- what can be put back -----------------------------------------------------------------

    @torch.no_grad()
    def snapshot(self) -> Callable[[], None]:
        """Keep weights and state; returns what puts them back."""
        count = range(len(self.parameters))
        places = [(i, key) for i in count for key in self.keys if key in self._entries[i]]
        states = [self._get(*it) if self.shards else self._entries[it[0]][it[1]] for it in places]
        tensors = [*self.parameters, *states]
        kept = self._spare
        if len(tensors) < 4 or sum(tensor.numel() for tensor in tensors) > SPARE:
            kept = [tensor.clone() for tensor in tensors]
        else:  # many small ones have memory that stays, which takes half the time
            if not kept:
                kept = self._spare = [torch.empty_like(tensor) for tensor in tensors]
            copy_all(kept, tensors)

        def put_back() -> None:
            # Attaching a bucket lets the entries be other tensors.
            targets = [*self.parameters, *(self._get(i, key) for i, key in places)]
            with torch.no_grad():
                copy_all(targets, kept)
            self.push()

        return put_back
