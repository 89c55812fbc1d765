"""Shards: parameters whose numbers lie in several processes (``DTensor``).

A shard is one more kind of bucket. Here it is found out which part of a weight a process works on,
what has to be added up over the processes, and how the state is kept so that checkpoints know the
whole of it. The rest of the library sees plain tensors.

Where a geometry can do with the part that lies here, that is what a step works on. Else the weight
is brought into another layout for the step, and back: cut along another dimension, or whole.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch import distributed as dist

from colangevin.constraints import Constraint
from colangevin.constraints.sums import ALONE, Alone, Cut
from colangevin.optimizers.step.layout import (
    MASTER,
    MOMENTUM,
    REMEMBERED,
    SINCE,
    SLACK,
    SLACK_MOMENTUM,
)
from colangevin.torch_compat import is_sharded, local_of


class Place(NamedTuple):
    """Where a part lies in the whole tensor.

    Attributes:
        shape: of the whole.
        first: where the part begins, in each dimension.
        size: its own shape.
    """

    shape: torch.Size
    first: tuple[int, ...]
    size: torch.Size

    @property
    def is_whole(self) -> bool:
        """Whether the part is everything."""
        return self.size == self.shape

    def band(self) -> tuple[int, int]:
        """The first flat index, and the length, of the rows that the part has a share of.

        Example:
            >>> Place(torch.Size([4, 3]), (1, 0), torch.Size([2, 2])).band()
            (3, 6)
        """
        row = self.shape[1:].numel()
        return (self.first[0] * row, self.size[0] * row) if self.shape else (0, 1)

    def of_band(self, numbers: Tensor) -> Tensor:
        """The part, of the numbers of a band."""
        found = numbers.view(self.size[0], *self.shape[1:]) if self.shape else numbers.view(())
        for dim in range(1, len(self.shape)):
            found = found.narrow(dim, self.first[dim], self.size[dim])
        return found

    def of_whole(self, tensor: Tensor) -> Tensor:
        """The part, of a whole tensor."""
        for dim, (first, size) in enumerate(zip(self.first, self.size, strict=True)):
            tensor = tensor.narrow(dim, first, size)
        return tensor


def place_of(shape: torch.Size, mesh: Any, placements: Sequence[Any]) -> Place:
    """Where the part of this process lies: torch cuts into chunks of ⌈n/k⌉ rows."""
    first, size = [0] * len(shape), list(shape)
    for index, placement in enumerate(placements):
        if placement.is_shard():
            dim, rows = placement.dim % len(shape), size[placement.dim]
            chunk = -(-rows // mesh.size(index))
            begin = min(mesh.get_local_rank(index) * chunk, rows)
            size[dim] = min(chunk, rows - begin)
            first[dim] += begin
    return Place(shape, tuple(first), torch.Size(size))


@torch.no_grad()
def whole_of(parameter: Any) -> Tensor:
    """All of a parameter, gathered from the processes that have parts of it."""
    whole: Tensor = parameter.detach().full_tensor()
    return whole


def laid_like(parameter: Any, tensor: Any) -> Tensor:
    """A tensor of a parameter's shape, cut as the parameter is."""
    if is_sharded(tensor) and tuple(tensor.placements) != tuple(parameter.placements):
        tensor = tensor.redistribute(parameter.device_mesh, parameter.placements)
    found: Tensor = tensor
    return found


class Over(Alone):
    """Adds up over the processes that hold parts of the same copies.

    Args:
        groups: the process groups, one per dimension of the mesh that cuts through copies.
    """

    def __init__(self, groups: Sequence[Any]) -> None:
        self.groups = list(groups)

    def sums(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        joined = tensors[0].contiguous() if len(tensors) == 1 else torch.stack(tensors)
        for group in self.groups:
            dist.all_reduce(joined, group=group)
        return (joined,) if len(tensors) == 1 else joined.unbind()

    def largest(self, matrix: Tensor) -> Tensor:
        if matrix.shape[-2]:
            found = super().largest(matrix).contiguous()
        else:
            found = matrix.new_zeros(*matrix.shape[:-2], 1, 1)
        for group in self.groups:
            dist.all_reduce(found, dist.ReduceOp.MAX, group=group)
        return found

    def apply(self, function: Callable[[Tensor], Tensor], matrix: Tensor) -> Tensor:
        return self._apply(function, matrix, self.groups)

    def _apply(
        self, function: Callable[[Tensor], Tensor], matrix: Tensor, groups: Sequence[Any]
    ) -> Tensor:
        """Over one group after the other, the last one innermost."""
        if not groups:
            return function(matrix)
        group, rows = groups[-1], matrix.shape[-2]
        counts = torch.zeros(dist.get_world_size(group), dtype=torch.int64, device=matrix.device)
        counts[dist.get_rank(group)] = rows
        dist.all_reduce(counts, group=group)
        lengths = counts.tolist()
        padded = matrix.new_zeros(*matrix.shape[:-2], max(lengths), matrix.shape[-1])
        padded[..., :rows, :] = matrix
        found = [torch.empty_like(padded) for _ in lengths]
        dist.all_gather(found, padded, group=group)
        pairs = zip(found, lengths, strict=True)
        whole = torch.cat([part[..., :length, :] for part, length in pairs], dim=-2)
        result = self._apply(function, whole, groups[:-1])
        return result.narrow(-2, sum(lengths[: dist.get_rank(group)]), rows)


def work_layout(parameter: Any, own: Constraint | None) -> tuple[Any, ...]:
    """The placements in which a step works on a parameter.

    Those that it has, where the geometry allows it. Where a cut is not allowed, one along the
    longest dimension that allows it takes its place, if there is one. Else the weight is whole, as
    it has to be for a joint geometry (None).
    """
    from torch.distributed.tensor import Replicate, Shard

    shape, found = parameter.shape, []
    whole = tuple(Replicate() for _ in parameter.placements)
    for placement in parameter.placements:
        if type(placement) not in (Shard, Replicate) or own is None:
            return whole  # such as cuts that are interleaved
        if placement.is_shard() and own.cut(shape, placement.dim % len(shape)) is Cut.NEVER:
            dims = [dim for dim in range(len(shape)) if own.cut(shape, dim) is not Cut.NEVER]
            if not dims:
                return whole
            placement = Shard(max(dims, key=lambda dim: shape[dim]))
        found.append(placement)
    return tuple(found)


class ShardedWeight:
    """A parameter of which this process has a part.

    Args:
        owner: the parameter.
        own: the geometry of the whole weight; None for a joint one.

    Attributes:
        tensor: the memory that a step works on: that of the parameter, or a copy in the layout of
            the work, which ``fetch`` fills and ``push`` writes back.
        place: where it lies in the whole.
        constraint: the geometry of the part.
    """

    def __init__(self, owner: Any, own: Constraint | None) -> None:
        self.owner, self.own, self.mesh = owner, own, owner.device_mesh
        self.work = work_layout(owner, own)
        self.place = place_of(owner.shape, self.mesh, self.work)
        self.moves = self.work != tuple(owner.placements)
        through: list[int] = []
        between: list[int] = []
        for index, placement in enumerate(self.work):
            if placement.is_shard() and self.mesh.size(index) > 1 and own is not None:
                cut = own.cut(owner.shape, placement.dim % owner.dim())
                target = through if cut is Cut.THROUGH else between
                target.append(index)
        self._through, self._between = through, between
        over = Over([self.mesh.get_group(i) for i in through]) if through else ALONE
        self.constraint = own
        if own is not None and (through or between):
            self.constraint = own.part(owner.shape, self.place.first, self.place.size, over)
        self.tensor = local_of(owner)
        if self.moves:
            self.tensor = torch.empty(self.place.size, dtype=owner.dtype, device=self.tensor.device)
            self.fetch()

    @property
    def key(self) -> tuple[object, ...]:
        """Shards with equal keys may share a batch: in all processes, or in none."""
        alike = self.mesh, tuple(map(str, self.work)), self.moves
        elementwise = self.constraint is not None and self.constraint.elementwise
        return alike if elementwise else (*alike, self.owner.shape)

    @torch.no_grad()
    def fetch(self) -> None:
        """Bring the parameter into the layout of the work."""
        if self.moves:
            self.tensor.copy_(self.localised(self.owner.detach()))

    @torch.no_grad()
    def push(self) -> None:
        """Bring it back."""
        if self.moves:
            moved = self.wrapped(MOMENTUM, self.tensor)
            moved = moved.redistribute(self.mesh, self.owner.placements)
            local_of(self.owner).copy_(local_of(moved))

    def whole(self) -> Tensor:
        """All of the parameter."""
        return whole_of(self.owner)

    def localised(self, tensor: Any) -> Tensor:
        """The part of a tensor of the parameter's shape, such as a gradient, to work on."""
        if not is_sharded(tensor):
            return tensor if tensor.shape == self.place.size else self.place.of_whole(tensor)
        if tuple(tensor.placements) != self.work or tensor.device_mesh != self.mesh:
            tensor = tensor.redistribute(self.mesh, self.work)
        return local_of(tensor)

    # --- state --------------------------------------------------------------------------------

    def _kept(self, key: str) -> tuple[torch.Size, tuple[Any, ...]] | None:
        """Shape and placements of an entry of the state; None for one that all have."""
        from torch.distributed.tensor import Replicate, Shard

        if key in (MOMENTUM, MASTER) or (key.startswith(REMEMBERED) and not key.endswith(SINCE)):
            return self.owner.shape, self.work
        if key not in (SLACK, SLACK_MOMENTUM):
            return None
        if self.constraint is not None and self.constraint.elementwise:
            return self.owner.shape, self.work
        rows = [Shard(0) if i in self._between else Replicate() for i in range(len(self.work))]
        return torch.Size([]), tuple(rows)

    def rows(self) -> tuple[int, int, int]:
        """Of the copies of the manifold: the first one here, how many are here, and in all."""
        for index in self._between:
            dim = self.work[index].dim % self.owner.dim()
            return self.place.first[dim], self.place.size[dim], self.place.shape[dim]
        return 0, 0, 0

    def wrapped(self, key: str, local: Tensor) -> Any:
        """An entry of the state as one of the whole parameter."""
        from torch.distributed.tensor import DTensor

        kept = self._kept(key)
        if kept is None:
            return local
        shape, placements = kept
        if not shape and self.owner.dim():
            rows = self.rows()[2] if self._between else local.shape[0]
            shape = torch.Size([rows, *local.shape[1:]])
        stride = [math.prod(shape[i + 1 :]) for i in range(len(shape))]
        return DTensor.from_local(
            local, self.mesh, placements, run_check=False, shape=shape, stride=tuple(stride)
        )

    def unwrapped(self, key: str, value: Any) -> tuple[Any, Tensor]:
        """An entry as the state has to have it, and the part of it that lies here.

        What was loaded may be cut in another way, or whole.
        """
        kept = self._kept(key)
        if kept is None:
            return value, value
        if not is_sharded(value):
            value = self.wrapped(key, self._cut(key, value).clone())
        elif tuple(value.placements) != kept[1]:
            value = value.redistribute(self.mesh, kept[1])
        return value, local_of(value)

    def _cut(self, key: str, whole: Tensor) -> Tensor:
        if whole.shape == self.owner.shape and self._kept(key) == (whole.shape, self.work):
            return self.place.of_whole(whole)
        first, size, _ = self.rows()
        return whole.narrow(0, first, size) if self._between else whole

    # --- over all parts -----------------------------------------------------------------------

    def total(self, terms: Tensor) -> Tensor:
        """The sum of terms over all copies of the manifold, wherever they are."""
        total = terms.sum()
        for index in self._between:
            dist.all_reduce(total, group=self.mesh.get_group(index))
        return total

    def worst(self, value: float) -> float:
        """The largest of the processes' numbers; NaN if one of them is."""
        found = torch.tensor([float(math.isnan(value)), 0.0 if math.isnan(value) else value])
        found = found.double().to(self.tensor.device)
        for index in [*self._between, *self._through]:
            dist.all_reduce(found, dist.ReduceOp.MAX, group=self.mesh.get_group(index))
        return math.nan if bool(found[0]) else float(found[1])
