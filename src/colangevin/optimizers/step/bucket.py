"""Buckets: parameters that move together, and where their numbers and their state lie.

This is the one place that knows how parameters and their state are laid out in memory. In an
ensemble every parameter is stacked, [members, ...]; to a geometry that is more copies of its
manifold. Of a parameter that lies in several processes a bucket has the part that is here.
"""

from __future__ import annotations

import functools
from array import array
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from torch import Tensor
from torch.func import vmap

from colangevin.constraints import Constraint, State
from colangevin.constraints.base import Scalar
from colangevin.integrators.recipe import direction
from colangevin.random import rounded_at_random
from colangevin.torch_compat import copy_all, is_sharded

if TYPE_CHECKING:
    from colangevin.optimizers.directions import Direction
    from colangevin.optimizers.distributed.shards import ShardedWeight

StateOf: TypeAlias = "dict[Tensor, Any]"

STEP = "step"
MOMENTUM = "momentum_buffer"
SLACK = "slack"
"""What a geometry keeps for the slack; that of ``Circle`` is an angle."""
SLACK_MOMENTUM = "slack_momentum"
MASTER = "master"
WRITTEN = (MOMENTUM, SLACK, SLACK_MOMENTUM, MASTER)
"""What moves with a parameter."""
REMEMBERED = "direction_"
"""How entries of the state begin that a direction keeps."""
SINCE = "since"
"""The step in which the parameter got its direction."""
SPARE = 1 << 17
"""Up to so many numbers the copies of a bucket that may be put back keep their memory."""
HALF = (torch.bfloat16, torch.float16)


def work_dtype(dtype: torch.dtype) -> torch.dtype:
    """Half precision cannot hold a constraint: the work is done in float32."""
    return torch.float32 if dtype in HALF else dtype


class Bucket:
    """Parameters of one group whose batches are concatenated.

    Once it is attached, the momenta, slacks and step counts of all parameters lie in one tensor
    each, and the entries of the optimizer's state are views of it. So a step need not gather them.
    The position is the parameter itself if there is only one, else it is gathered before and
    copied back after a step.

    Args:
        constraint: the geometry, bound to the shape of one member.
        parameters: the parameters, in the group's order: the part of them that is here.
        names: of the parameters, for messages.
        ordinals: the places of the parameters in the optimizer, which their noise depends on.
        members: how many copies of each parameter are stacked, in an ensemble.
        shards: of parameters that lie in several processes.
        direction: takes the place of the gradient.
        rounds: whether weights in half precision are rounded at random, and have no float32 copy.
        captured: whether a graph captures the steps: counts are then where the parameters are.
        owns: the geometry of each parameter, where they may differ: ``constraint`` is one of them.

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
        self.constraint = constraint.joined(owns) if len(owns) > 1 else constraint
        self._owns = tuple(owns)
        self.parameters = tuple(parameters)
        self.names = tuple(names)
        self.ordinals = tuple(ordinals)
        self.members = members
        self.shards = tuple(shards)
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
        self._position: Tensor | None = None
        self._state: State | None = None
        self._bound = self._lies_there = False
        self.home: State | None = None
        self._spare: list[Tensor] = []

    @property
    def name(self) -> str:
        """For messages."""
        return ", ".join(self.names)

    def part(self, indices: Sequence[int]) -> Bucket:
        """Some of the parameters."""
        shards = [self.shards[i] for i in indices] if self.shards else ()
        owns = [self._owns[i] for i in indices] if self._owns else []
        return Bucket(
            owns[0] if owns else self.constraint,
            [self.parameters[i] for i in indices],
            [self.names[i] for i in indices],
            [self.ordinals[i] for i in indices],
            self.members,
            shards,
            self.direction,
            self.rounds,
            self.captured,
            owns,
        )

    def own(self, index: int) -> Constraint:
        """The geometry of one of the parameters."""
        return self._owns[index] if self._owns else self.constraint

    def singles(self) -> list[Bucket]:
        """The parameters one by one, or all of them if the constraint is joint."""
        count = len(self.parameters)
        if self.constraint.joint:
            return [self.part(range(count))]
        return [self.part([i]) for i in range(count)]

    # --- shards -----------------------------------------------------------------------------

    @property
    def owners(self) -> Sequence[Tensor]:
        """The parameters as the user has them, of which ``parameters`` may be parts."""
        if not self.shards:
            return self.parameters
        pairs = zip(self.shards, self.parameters, strict=True)
        return [own if shard is None else shard.owner for shard, own in pairs]

    def localised(self, index: int, tensor: Tensor) -> Tensor:
        """The part of a tensor of a parameter's shape that belongs to the batch."""
        shard = self.shards[index] if self.shards else None
        return tensor if shard is None else shard.localised(tensor)

    def globalised(self, parts: Sequence[Tensor]) -> list[Tensor]:
        """Parts of tensors of the parameters' shapes as tensors that know the whole."""
        shards = self.shards or [None] * len(parts)
        pairs = zip(shards, parts, strict=True)
        return [part if shard is None else shard.wrapped(MOMENTUM, part) for shard, part in pairs]

    def whole(self) -> Bucket:
        """A bucket of the whole parameters, gathered from all processes."""
        if not self.shards:
            return self
        pairs = list(zip(self.shards, self.parameters, strict=True))
        tensors = [own if shard is None else shard.whole() for shard, own in pairs]
        owns = [s.own for s in self.shards if s is not None and s.own is not None]
        first = owns[0] if owns else self.constraint
        return Bucket(first, tensors, self.names, self.ordinals, owns=owns)

    def of_whole(self, position: Tensor, whole: Bucket) -> Tensor:
        """The part of a bucket of whole parameters that belongs to this one."""
        if whole is self:
            return position
        parts = whole.scatter(position)
        return self.gather([self.localised(i, part) for i, part in enumerate(parts)])

    def fetch(self) -> None:
        """Bring the parameters into the layout in which a step works on them."""
        for shard in self.shards:
            if shard is not None:
                shard.fetch()

    def push(self) -> None:
        """Bring them back."""
        for shard in self.shards:
            if shard is not None:
                shard.push()

    @property
    def whole_shapes(self) -> list[torch.Size]:
        """The shapes of one member's whole parameters."""
        return [owner.shape for owner in self.owners] if self.shards else list(self.shapes)

    def worst(self, value: float) -> float:
        """The largest of a number over the processes that share the parameters."""
        for shard in self.shards[:1]:
            return value if shard is None else shard.worst(value)
        return value

    # --- layout ---------------------------------------------------------------------------

    @functools.cached_property
    def shapes(self) -> tuple[torch.Size, ...]:
        """The shapes of one member's parameters."""
        skip = 0 if self.members is None else 1
        return tuple(parameter.shape[skip:] for parameter in self.parameters)

    @functools.cached_property
    def _dtype(self) -> torch.dtype:
        return work_dtype(self.parameters[0].dtype)

    @functools.cached_property
    def dims(self) -> int:
        """Dimensions of the batch, without members."""
        one = self.parameters[0] if self.members is None else self.parameters[0][0]
        return self.constraint.to_batch(one).dim()

    def to_rows(self, tensor: Tensor) -> Tensor:
        """A tensor of a parameter's shape as a batch."""
        tensor = tensor.detach() if tensor.requires_grad else tensor
        if self.members is None:
            return self.constraint.to_batch(tensor)
        if self.constraint.elementwise:
            return tensor
        batch = self.constraint.to_batch(tensor, 1)
        return batch.flatten(0, batch.dim() - self.dims)

    def from_rows(self, batch: Tensor, index: int) -> Tensor:
        """Undo ``to_rows`` for one of the parameters."""
        shape = self.shapes[index]
        if self.members is None:
            return self.constraint.from_batch(batch, shape)
        if self.constraint.elementwise:
            return batch
        copies = batch.unflatten(0, (self.members, -1))
        return vmap(lambda one: self.constraint.from_batch(one, shape))(copies)

    def gather(self, tensors: Sequence[Tensor], out: Tensor | None = None) -> Tensor:
        """Lay tensors of the parameters' shapes out as one batch, in the dtype of the work."""
        dtype = self._dtype
        if len(tensors) == 1 and self.members is None:
            only = tensors[0].detach() if tensors[0].requires_grad else tensors[0]
            batch = self.constraint.to_batch(only)
            return batch if batch.dtype is dtype else batch.to(dtype)
        if len(tensors) > 1 and self._stackable(tensors, dtype):
            # One call for all, and wide weights stay in their own memory layout.
            batch = self.constraint.to_batch(torch.stack(tuple(tensors)).detach(), 1)
            return batch.flatten(0, batch.dim() - self.dims)
        batches = [self.to_rows(tensor) for tensor in tensors]
        batches = [batch if batch.dtype is dtype else batch.to(dtype) for batch in batches]
        if len(batches) == 1:
            return batches[0]
        dim = 1 if self.constraint.joint else 0
        if batches[0].dim() == 3 and batches[0].stride(-1) != 1:  # wide weights stay as they lie
            turned = [batch.mT for batch in batches]
            return torch.cat(turned, out=None if out is None else out.mT).mT
        return torch.cat(batches, dim=dim, out=out)

    def _stackable(self, tensors: Sequence[Tensor], dtype: torch.dtype) -> bool:
        alone = self.constraint.elementwise or self.constraint.joint or self.members is not None
        if alone:
            return False
        shape = tensors[0].shape
        return all(tensor.shape == shape and tensor.dtype is dtype for tensor in tensors)

    @functools.cached_property
    def rows(self) -> list[int]:
        """How much of the batch each parameter takes up, along the dimension they are joined."""
        dim = 1 if self.constraint.joint else 0
        return [self.to_rows(parameter).shape[dim] for parameter in self.parameters]

    def scatter(self, batch: Tensor) -> list[Tensor]:
        """Undo ``gather``: views where that is possible."""
        parts = [batch]
        if len(self.parameters) > 1:
            parts = list(batch.split(self.rows, dim=1 if self.constraint.joint else 0))
        return [self.from_rows(part, index) for index, part in enumerate(parts)]

    def _slack_parts(self, slack: Tensor) -> list[Tensor]:
        """A slack by parameter: in the weight's shape if elementwise, else as the batch has it."""
        if self.constraint.elementwise:
            return self.scatter(slack)
        if self.constraint.joint or len(self.parameters) == 1:
            return [slack]  # the first parameter of a joint constraint keeps it
        return list(slack.split(self.rows))

    # --- members of an ensemble -----------------------------------------------------------

    def per_member_shape(self, numbers: Tensor) -> Tensor:
        """Give one number per member the shape of the batch."""
        assert self.members is not None
        dtype, device = work_dtype(self.parameters[0].dtype), self.parameters[0].device
        numbers = numbers.to(device=device, dtype=dtype)
        if self.constraint.elementwise:
            return numbers.view(-1, *[1] * (self.parameters[0].dim() - 1))
        copies = [numbers.repeat_interleave(rows // self.members) for rows in self._copies_here()]
        return torch.cat(copies).view(-1, *[1] * (self.dims - 1))

    def per_member(self, terms: Tensor) -> Tensor:
        """Sum terms, one per entry of the batch, for each member; over all without members."""
        if self.members is None:
            shard = self.shards[0] if self.shards else None
            return terms.sum() if shard is None else shard.total(terms)
        parts = terms.split(self._copies_here()) if len(self.parameters) > 1 else [terms]
        return torch.stack([part.reshape(self.members, -1).sum(dim=1) for part in parts]).sum(0)

    def worst_of_members(self, values: Tensor) -> Tensor:
        """The largest of values, one or more per entry of the batch, for each member."""
        assert self.members is not None
        rows = values if values.dim() == 1 else values.flatten(1).amax(dim=1)
        return rows.view(self.members, -1).amax(dim=1)

    def _copies_here(self) -> list[int]:
        """Entries of the batch by parameter; those of a joint constraint share theirs."""
        if self.constraint.joint:
            return [self.to_rows(self.parameters[0]).shape[0]]
        return self.rows

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
        dtype, fresh = self._dtype, []
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
                self._set(index, key, torch.zeros(own.shape, dtype=self._dtype, device=own.device))

    def _prepare_slack(self, index: int, momentum: bool) -> bool:
        """Whether there is a slack, which is made where it is missing."""
        entry, whole = self._entries[index], not self.constraint.elementwise
        if SLACK in entry and (SLACK_MOMENTUM in entry or not (momentum and whole)):
            return True
        if self.constraint.joint:
            position = self.gather(self.parameters)
        else:
            position = self.to_rows(self.parameters[index]).to(self._dtype)
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
        alone = count == 1 and same and weight.dtype is self._dtype
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

    def steps(self) -> Sequence[int] | Tensor:
        """How many steps each parameter has made: not read where a graph captures them."""
        if self.captured:
            return self.counts
        made: list[int] = self.counts.tolist()
        return made

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
            return state._replace(position=self.gather(self._weights()))
        self._position = self.gather(self._weights(), out=self._position)
        return state._replace(position=self._position)

    def _weights(self) -> list[Tensor]:
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

    def direct(self, weight_decay: Scalar, steps: Sequence[int] | Tensor) -> None:
        """Let the updates of the direction take the place of the gradients.

        Args:
            weight_decay: of the weights in the gradients, one number or one per member.
            steps: how many steps each parameter has made.
        """
        direction, dtype = self.direction, self._dtype
        assert direction is not None
        weights = [weight.detach().to(dtype) for weight in self._weights()]
        slopes = [slope if slope.dtype is dtype else slope.to(dtype) for slope in self.slopes()]
        if isinstance(weight_decay, Tensor) or weight_decay != 0.0:
            slopes = self.decayed(slopes, weights, weight_decay)
        count = range(len(slopes))
        memories = [
            {key[len(REMEMBERED) :]: self._get(i, key) for key in self._remembered} for i in count
        ]
        updates = direction.updates(slopes, weights, memories, self.ages(steps))
        if direction.whole or direction.relative or direction.tangent:
            updates = self._finished(direction, updates, weights)
        if not direction.trusted:
            check_updates(self.names, updates, self.parameters, look=not self.captured)
        self.gradients = list(updates)

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
        return number.to(weight.device, self._dtype).view(-1, *[1] * (weight.dim() - 1))

    def _finished(
        self, direction: Direction, updates: list[Tensor], weights: list[Tensor]
    ) -> list[Tensor]:
        """Updates of whole weights, of which this process may have parts."""
        lead, whole = int(self.members is not None), self
        if self.shards:
            whole = self.whole()
            weights = [weight.to(self._dtype) for weight in whole.parameters]
            wrapped: list[Any] = self.globalised(updates)
            updates = [u.full_tensor() if is_sharded(u) else u for u in wrapped]
        updates = direction.finish(updates, whole.constraint, weights, lead)
        if direction.tangent:
            batches = State(whole.gather(weights)), whole.gather(updates)
            updates = whole.scatter(whole.constraint.tangent(*batches).main)
        if direction.relative:
            updates = whole.lengthened(updates, weights)
        return [self.localised(i, own) for i, own in enumerate(updates)] if self.shards else updates

    def lengthened(self, updates: Sequence[Tensor], weights: Sequence[Tensor]) -> list[Tensor]:
        """Updates as long as the radius of the manifold, or as the norm of a free weight.

        Each copy of a manifold has its own; where every entry is one, the weight counts.
        """
        tiny, own = torch.finfo(self._dtype).tiny, self.constraint
        most = torch.finfo(self._dtype).max  # an infinite factor of an update of 0 would be NaN

        def lengthened(update: Tensor, place: Tensor, dims: list[int]) -> Tensor:
            length = torch.linalg.vector_norm(update, dim=dims, keepdim=True).clamp_min(tiny)
            return update * (own.extent(place, dims) / length).clamp_max(most)

        if not own.elementwise:
            batch = self.gather(updates)
            return self.scatter(lengthened(batch, self.gather(weights), own.inner(batch)))
        pairs = zip(updates, weights, strict=True)
        return [lengthened(u, w, own.inner(u)[int(self.members is not None) :]) for u, w in pairs]

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
