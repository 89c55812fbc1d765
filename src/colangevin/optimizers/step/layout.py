"""Layout: how the tensors of several parameters lie as one batch.

In an ensemble every parameter is stacked, [members, ...]; to a geometry that is more copies of its
manifold. Of a parameter that lies in several processes the batch has the part that is here.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from torch import Tensor
from torch.func import vmap

from colangevin.constraints import Constraint

if TYPE_CHECKING:
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
HALF = (torch.bfloat16, torch.float16)


def work_dtype(dtype: torch.dtype) -> torch.dtype:
    """Half precision cannot hold a constraint: the work is done in float32."""
    return torch.float32 if dtype in HALF else dtype


class Layout:
    """Parameters of one geometry whose batches are concatenated.

    Args:
        constraint: the geometry, bound to the shape of one member.
        parameters: the parameters, in the group's order: the part of them that is here.
        names: of the parameters, for messages.
        ordinals: the places of the parameters in the optimizer, which their noise depends on.
        members: how many copies of each parameter are stacked, in an ensemble.
        shards: of parameters that lie in several processes.
        owns: the geometry of each parameter, where they may differ: ``constraint`` is one of them.
    """

    def __init__(
        self,
        constraint: Constraint,
        parameters: Sequence[Tensor],
        names: Sequence[str],
        ordinals: Sequence[int],
        members: int | None = None,
        shards: Sequence[ShardedWeight | None] = (),
        owns: Sequence[Constraint] = (),
    ) -> None:
        self.constraint = constraint.joined(owns) if len(owns) > 1 else constraint
        self.members, self._owns = members, tuple(owns)
        self.parameters, self.names = tuple(parameters), tuple(names)
        self.ordinals, self.shards = tuple(ordinals), tuple(shards)

    @property
    def name(self) -> str:
        """For messages."""
        return ", ".join(self.names)

    def own(self, index: int) -> Constraint:
        """The geometry of one of the parameters."""
        return self._owns[index] if self._owns else self.constraint

    # --- layout ---------------------------------------------------------------------------

    @functools.cached_property
    def shapes(self) -> tuple[torch.Size, ...]:
        """The shapes of one member's parameters."""
        skip = 0 if self.members is None else 1
        return tuple(parameter.shape[skip:] for parameter in self.parameters)

    @functools.cached_property
    def dtype(self) -> torch.dtype:
        """That of the work."""
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
        dtype = self.dtype
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

    # --- members of an ensemble -----------------------------------------------------------

    def per_member_shape(self, numbers: Tensor) -> Tensor:
        """Give one number per member the shape of the batch."""
        assert self.members is not None
        numbers = numbers.to(device=self.parameters[0].device, dtype=self.dtype)
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

    def whole(self) -> Layout:
        """The layout of the whole parameters, gathered from all processes."""
        if not self.shards:
            return self
        pairs = list(zip(self.shards, self.parameters, strict=True))
        tensors = [own if shard is None else shard.whole() for shard, own in pairs]
        owns = [s.own for s in self.shards if s is not None and s.own is not None]
        first = owns[0] if owns else self.constraint
        return Layout(first, tensors, self.names, self.ordinals, owns=owns)

    def of_whole(self, position: Tensor, whole: Layout) -> Tensor:
        """The part of a batch of whole parameters that belongs to this one."""
        if whole is self:
            return position
        parts = whole.scatter(position)
        return self.gather([self.localised(i, part) for i, part in enumerate(parts)])

    def push(self) -> None:
        """Bring the parameters back from the layout in which a step works on them."""
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
