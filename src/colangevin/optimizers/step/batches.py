"""Batches: the parameters that share a geometry, and where their numbers lie.

This is the one place that knows how parameters and their state are laid out in memory. In an
ensemble every parameter is stacked, [members, ...]; to a geometry that is more copies of its
manifold.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from torch import Tensor
from torch.func import vmap

from colangevin.constraints import Constraint, State
from colangevin.optimizers.torch_compat import copy_all

if TYPE_CHECKING:
    from colangevin.optimizers.distributed.shards import ShardedWeight

StateOf: TypeAlias = MutableMapping[Tensor, Any]

STEP = "step"
MOMENTUM = "momentum_buffer"
SLACK = "slack"
"""What a geometry keeps for the slack; that of ``Circle`` is an angle."""
SLACK_MOMENTUM = "slack_momentum"
MASTER = "master"
WRITTEN = (MOMENTUM, SLACK, SLACK_MOMENTUM, MASTER)
"""What moves with a parameter."""
SPARE = 1 << 17
"""Up to so many numbers the copies of a batch that may be put back keep their memory."""
NOTHING: dict[str, Any] = {}
HALF = (torch.bfloat16, torch.float16)


def work_dtype(dtype: torch.dtype) -> torch.dtype:
    """Half precision cannot hold a constraint: the work is done in float32."""
    return torch.float32 if dtype in HALF else dtype


class Batch:
    """Parameters of one group whose batches are concatenated.

    The momenta, slacks and step counts of all parameters lie in one tensor each, and the entries
    of the optimizer's state are views of it. So a step need not gather them. The position is the
    parameter itself if there is only one, else it is gathered before and copied back after a step.

    Args:
        constraint: the geometry, bound to the shape of one member.
        parameters: the parameters, in the group's order.
        names: of the parameters, for messages.
        ordinals: the places of the parameters in the optimizer, which their noise depends on.
        members: how many copies of each parameter are stacked, in an ensemble.
        passing: whether this is a part of another batch for one step. Then the entries of the
            state stay where they are.
        shards: of parameters that lie in several processes; what is batched is the part here.
    """

    def __init__(
        self,
        constraint: Constraint,
        parameters: Sequence[Tensor],
        names: Sequence[str],
        ordinals: Sequence[int],
        members: int | None = None,
        passing: bool = False,
        shards: Sequence[ShardedWeight | None] = (),
    ) -> None:
        self.constraint = constraint
        self.parameters = tuple(parameters)
        self.names = tuple(names)
        self.ordinals = tuple(ordinals)
        self.members = members
        self.passing = passing
        self.shards = tuple(shards)
        self._home: State | None = None
        self._counts = torch.zeros(0, dtype=torch.int64)
        self._views: list[Tensor] = []
        self._bound: list[tuple[Tensor, str, Tensor]] = []
        self._place: tuple[object, ...] = ()
        self._spare: list[Tensor] = []

    @property
    def name(self) -> str:
        """For messages."""
        return ", ".join(self.names)

    def part(self, indices: Sequence[int]) -> Batch:
        """Some of the parameters, for one step."""
        parameters = [self.parameters[i] for i in indices]
        names, ordinals = [self.names[i] for i in indices], [self.ordinals[i] for i in indices]
        shards = [self.shards[i] for i in indices] if self.shards else ()
        return Batch(self.constraint, parameters, names, ordinals, self.members, True, shards)

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

    def whole(self) -> Batch:
        """A batch of the whole parameters, gathered from all processes."""
        if not self.shards:
            return self
        pairs = list(zip(self.shards, self.parameters, strict=True))
        tensors = [own if shard is None else shard.whole() for shard, own in pairs]
        first = self.shards[0]
        own = None if first is None else first.own
        return Batch(own or self.constraint, tensors, self.names, self.ordinals, None, True)

    def of_whole(self, position: Tensor, whole: Batch) -> Tensor:
        """The part of a batch of whole parameters that belongs to this one."""
        if whole is self:
            return position
        parts = whole.scatter(position)
        return self.gather([self.localised(i, part) for i, part in enumerate(parts)])

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

    def lay(self, tensor: Tensor) -> Tensor:
        """A tensor of a parameter's shape as a batch."""
        tensor = tensor.detach() if tensor.requires_grad else tensor
        if self.members is None:
            return self.constraint.to_batch(tensor)
        if self.constraint.elementwise:
            return tensor
        batch = self.constraint.to_batch(tensor, 1)
        return batch.flatten(0, batch.dim() - self.dims)

    def _unlay(self, batch: Tensor, index: int) -> Tensor:
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
        if len(tensors) > 1 and self._stackable(tensors, dtype):
            # One call for all, and wide weights stay in their own memory layout.
            batch = self.constraint.to_batch(torch.stack(tuple(tensors)).detach(), 1)
            return batch.flatten(0, batch.dim() - self.dims)
        batches = [self.lay(tensor) for tensor in tensors]
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
        return [self.lay(parameter).shape[dim] for parameter in self.parameters]

    def scatter(self, batch: Tensor) -> list[Tensor]:
        """Undo ``gather``: views where that is possible."""
        parts = [batch]
        if len(self.parameters) > 1:
            parts = list(batch.split(self.rows, dim=1 if self.constraint.joint else 0))
        return [self._unlay(part, index) for index, part in enumerate(parts)]

    def _slack_parts(self, slack: Tensor) -> list[Tensor]:
        """A slack by parameter: in the weight's shape if elementwise, else as the batch has it."""
        if self.constraint.elementwise:
            return self.scatter(slack)
        if self.constraint.joint or len(self.parameters) == 1:
            return [slack]  # the first parameter of a joint constraint keeps it
        return list(slack.split(self.rows))

    # --- members of an ensemble -----------------------------------------------------------

    def spread(self, numbers: Tensor) -> Tensor:
        """Give one number per member the shape of the batch."""
        assert self.members is not None
        dtype, device = work_dtype(self.parameters[0].dtype), self.parameters[0].device
        numbers = numbers.to(device=device, dtype=dtype)
        if self.constraint.elementwise:
            return numbers.view(-1, *[1] * (self.parameters[0].dim() - 1))
        copies = [numbers.repeat_interleave(rows // self.members) for rows in self._entries()]
        return torch.cat(copies).view(-1, *[1] * (self.dims - 1))

    def per_member(self, terms: Tensor) -> Tensor:
        """Sum terms, one per entry of the batch, for each member; over all without members."""
        if self.members is None:
            shard = self.shards[0] if self.shards else None
            return terms.sum() if shard is None else shard.total(terms)
        parts = terms.split(self._entries()) if len(self.parameters) > 1 else [terms]
        return torch.stack([part.reshape(self.members, -1).sum(dim=1) for part in parts]).sum(0)

    def worst_of_members(self, values: Tensor) -> Tensor:
        """The largest of values, one or more per entry of the batch, for each member."""
        assert self.members is not None
        rows = values if values.dim() == 1 else values.flatten(1).amax(dim=1)
        return rows.view(self.members, -1).amax(dim=1)

    def _entries(self) -> list[int]:
        """Entries of the batch by parameter; those of a joint constraint share theirs."""
        if self.constraint.joint:
            return [self.lay(self.parameters[0]).shape[0]]
        return self.rows

    # --- reading ----------------------------------------------------------------------------

    @torch.no_grad()
    def prepare(self, state_of: StateOf, momentum: bool) -> None:
        """Make the entries of the state that are not there yet, for weights on the manifold."""
        dtype = work_dtype(self.parameters[0].dtype)
        entries = [state_of.setdefault(p, {}) for p in self.parameters]
        for parameter, entry in zip(self.parameters, entries, strict=True):
            if STEP not in entry:
                entry[STEP] = torch.zeros((), dtype=torch.int64)
            for key in (MOMENTUM, SLACK, SLACK_MOMENTUM, MASTER):
                if key in entry and entry[key].dtype is not dtype:
                    entry[key] = entry[key].to(dtype)  # the parameter had another
            if parameter.dtype in HALF and MASTER not in entry:
                entry[MASTER] = parameter.detach().to(dtype).contiguous()
            if momentum and MOMENTUM not in entry:
                shape, device = parameter.shape, parameter.device
                entry[MOMENTUM] = torch.zeros(shape, dtype=dtype, device=device)
        owners = entries[:1] if self.constraint.joint else entries
        lacking = any(SLACK not in entry for entry in owners)
        wanting = momentum and any(SLACK_MOMENTUM not in entry for entry in owners)
        if lacking or (wanting and not self.constraint.elementwise):
            self._prepare_slack(owners, momentum)

    def _prepare_slack(self, owners: Sequence[dict[str, Any]], momentum: bool) -> None:
        dtype = work_dtype(self.parameters[0].dtype)
        for index, entry in enumerate(owners):
            joint = self.constraint.joint
            weights = self.parameters if joint else self.parameters[index : index + 1]
            position = self.gather(weights) if joint else self.lay(weights[0]).to(dtype)
            slack = self.constraint.lift(position)
            if slack is None:
                return
            if self.constraint.elementwise:
                slack = self._unlay(slack, index)
            if SLACK not in entry:
                entry[SLACK] = slack.clone(memory_format=torch.contiguous_format)
            if momentum and not self.constraint.elementwise and SLACK_MOMENTUM not in entry:
                entry[SLACK_MOMENTUM] = torch.zeros_like(entry[SLACK])

    def read(self, state_of: StateOf, momentum: bool, asked: bool = False) -> State:
        """The state of the batch, whose entries must be there.

        Args:
            state_of: the optimizer's state.
            momentum: whether it is read, too.
            asked: whether it is known that all lies where it did.
        """
        home = self._home
        if home is None or not (asked or self._is_current(home, momentum, state_of)):
            home = self._home = self._adopt(state_of, momentum)
        elif not self._lies_there:
            position = self.gather(self._weights(state_of), out=home.position)
            home = self._home = home._replace(position=position)
        return home

    def _is_current(self, home: State, momentum: bool, state_of: StateOf) -> bool:
        """Whether parameters and state still lie where they did; a user may replace them."""
        if momentum != (home.momentum is not None) or self._place != self._find():
            return False
        return all(state_of[p].get(key) is tensor for p, key, tensor in self._bound)

    def _find(self) -> tuple[object, ...]:
        return tuple((p.data_ptr(), p.dtype, p.stride()) for p in self.parameters)

    def _weights(self, state_of: StateOf) -> list[Tensor]:
        return [self._master(state_of[p], p) for p in self.parameters]

    def _master(self, entry: dict[str, Any], parameter: Tensor) -> Tensor:
        """The float32 weights of a half-precision parameter, where they are still its own.

        What the user has written to the parameter since the last step counts.
        """
        master = entry.get(MASTER)
        if master is None or parameter.dtype not in HALF:
            return parameter
        weight = parameter.detach()
        kept = self.constraint.narrow(master, weight.dtype) == weight
        return torch.where(kept, master, weight.to(master.dtype))

    def _adopt(self, state_of: StateOf, momentum: bool) -> State:
        """Gather the state; its entries become views of the batch, unless this one passes."""
        entries = [state_of[p] for p in self.parameters]
        owners = entries[:1] if self.constraint.joint else entries
        self._place = self._find()
        position = self.gather(self._weights(state_of))
        self._lies_there = position.data_ptr() == self.parameters[0].data_ptr() and (
            len(entries) == 1 and position.dtype == self.parameters[0].dtype
        )
        slack = self._join(owners, SLACK)
        state = State(
            position,
            self.gather([entry[MOMENTUM] for entry in entries]) if momentum else None,
            slack,
            self._join(owners, SLACK_MOMENTUM) if momentum and slack is not None else None,
        )
        self._bound = []
        if not self.passing:
            self._bind(entries, owners, state)
        return state

    def _join(self, owners: Sequence[dict[str, Any]], key: str) -> Tensor | None:
        if key not in owners[0]:
            return None
        stored = [entry[key] for entry in owners]
        if self.constraint.elementwise:
            return self.gather(stored)
        return stored[0] if len(stored) == 1 else torch.cat(stored)

    def _bind(
        self, entries: Sequence[dict[str, Any]], owners: Sequence[dict[str, Any]], state: State
    ) -> None:
        if state.momentum is not None:
            self._point(entries, MOMENTUM, self.scatter(state.momentum))
        if state.slack is not None:
            self._point(owners, SLACK, self._slack_parts(state.slack))
        if state.slack_momentum is not None:
            self._point(owners, SLACK_MOMENTUM, self._slack_parts(state.slack_momentum))

    def _point(self, entries: Sequence[dict[str, Any]], key: str, parts: Iterable[Tensor]) -> None:
        for parameter, entry, part in zip(self.parameters, entries, parts, strict=False):
            if entry[key].data_ptr() != part.data_ptr():
                entry[key] = part
            self._bound.append((parameter, key, entry[key]))

    # --- counts -----------------------------------------------------------------------------

    def ages(self, state_of: StateOf, momentum: bool) -> tuple[list[int], list[int]]:
        """How many steps each parameter has made, and which have yet to make their first.

        Entries of the state that are not there are made.
        """
        entries = [state_of.get(p, NOTHING) for p in self.parameters]
        if self._views and all(
            entry.get(STEP) is own and (not momentum or MOMENTUM in entry)
            for entry, own in zip(entries, self._views, strict=True)
        ):
            steps = self._counts.tolist()
            return steps, [i for i, count in enumerate(steps) if count == 0] if 0 in steps else []
        lacking = [momentum and MOMENTUM not in entry for entry in entries]
        self.prepare(state_of, momentum)
        steps = self._bind_counts([state_of[p] for p in self.parameters])
        pairs = enumerate(zip(steps, lacking, strict=True))
        return steps, [i for i, (count, lacks) in pairs if lacks or count == 0]

    @property
    def counts(self) -> Tensor:
        """The counts of steps of a batch that has moved, of which the state has views."""
        return self._counts

    def steps(self) -> list[int]:
        """The counts of steps, of a batch that has just moved."""
        counts: list[int] = self._counts.tolist()
        return counts

    def _bind_counts(self, entries: Sequence[dict[str, Any]]) -> list[int]:
        """The counts of all parameters in one tensor, whose entries are views of it."""
        counts = torch.stack([entry[STEP] for entry in entries])
        if not self.passing:
            self._counts, self._views = counts, list(counts.unbind())
            for entry, view in zip(entries, self._views, strict=True):
                entry[STEP] = view
        return counts.tolist()

    def count(self, state_of: StateOf) -> None:
        """One step more."""
        if self.passing:
            for parameter in self.parameters:
                state_of[parameter][STEP].add_(1)
            return
        self._counts.add_(1)

    # --- writing ----------------------------------------------------------------------------

    @torch.no_grad()
    def snapshot(self, state_of: StateOf) -> Callable[[], None]:
        """Keep weights and state; returns what puts them back."""
        entries = [state_of[parameter] for parameter in self.parameters]
        places = [(entry, key) for entry in entries for key in WRITTEN if key in entry]
        tensors = [*self.parameters, *(entry[key] for entry, key in places)]
        kept = self._copies(tensors)

        def put_back() -> None:
            # The first reading of a batch lets the entries be other tensors.
            targets = [*self.parameters, *(entry[key] for entry, key in places)]
            with torch.no_grad():
                copy_all(targets, kept)

        return put_back

    def _copies(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Copies of tensors; many small ones have memory that stays, which takes half the time."""
        if len(tensors) < 4 or sum(tensor.numel() for tensor in tensors) > SPARE:
            return [tensor.clone() for tensor in tensors]
        pairs = zip(self._spare, tensors, strict=False)
        if len(self._spare) != len(tensors) or any(
            old.shape != new.shape or old.dtype != new.dtype or old.device != new.device
            for old, new in pairs
        ):
            self._spare = [torch.empty_like(tensor) for tensor in tensors]
        copy_all(self._spare, tensors)
        return self._spare

    @torch.no_grad()
    def write(self, state_of: StateOf, new: State) -> None:
        """Write a new state, which may be the one that ``read`` gave, changed in place."""
        home = self._home
        assert home is not None
        self._write_position(state_of, home, new.position)
        if self.passing:
            self._write_entries(state_of, new)
            return
        for target, value in zip(home[1:4], new[1:4], strict=True):
            if target is not None and value is not None and target is not value:
                target.copy_(value)

    def _write_position(self, state_of: StateOf, home: State, position: Tensor) -> None:
        if self._lies_there:
            if position is not home.position:
                home.position.copy_(position)
            return
        parts = self.scatter(position)
        for index, (parameter, part) in enumerate(zip(self.parameters, parts, strict=True)):
            if parameter.dtype in HALF:
                state_of[parameter][MASTER].copy_(part)
                parts[index] = self.constraint.narrow(part, parameter.dtype)
        copy_all(self.parameters, parts)

    def _write_entries(self, state_of: StateOf, new: State) -> None:
        entries = [state_of[p] for p in self.parameters]
        owners = entries[:1] if self.constraint.joint else entries
        found: list[tuple[Sequence[dict[str, Any]], str, list[Tensor]]] = []
        if new.momentum is not None:
            found.append((entries, MOMENTUM, self.scatter(new.momentum)))
        if new.slack is not None:
            found.append((owners, SLACK, self._slack_parts(new.slack)))
        if new.slack_momentum is not None:
            found.append((owners, SLACK_MOMENTUM, self._slack_parts(new.slack_momentum)))
        for group, key, parts in found:
            for entry, part in zip(group, parts, strict=True):
                if entry[key].data_ptr() != part.data_ptr():
                    entry[key].copy_(part)
