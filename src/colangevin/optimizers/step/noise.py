"""The noise of a batch: a pure function of seed, parameter, step, draw and index.

So there is no generator whose state has to be saved. The same numbers come out alone or in a
group, in an ensemble or not, before or after a resume.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from colangevin import checks
from colangevin.native import fill
from colangevin.random import key_of, keys_on_device, normals, signed, uniforms

if TYPE_CHECKING:
    from colangevin.optimizers.step.bucket import Bucket

DRAWS = 64
"""Draws that belong to one stretch of a call."""
ROUNDING = 1 << 40
"""The draw for the rounding of the first stretch, far behind those of the noise."""
SEEDS = 2**62
INTEGERS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
"""By the bytes of a number: a sum of integers does not depend on its order."""


class Noise:
    """Draws standard normals for a bucket, one tensor after the other.

    Args:
        bucket: where the numbers go.
        seeds: of the optimizer, or one per member.
        steps: how many steps each parameter has made; a tensor where a graph captures them, which
            is then not read.
        draw: number of the first draw.
    """

    def __init__(
        self, bucket: Bucket, seeds: Sequence[int], steps: Sequence[int] | Tensor, draw: int = 0
    ) -> None:
        self._bucket, self._seeds, self._steps = bucket, seeds, steps
        self._first_draw = self._draw = draw
        self._first = 0
        self._kept: dict[int, Tensor] = {}
        self._make: Callable[..., Tensor] = normals

    def at(self, first: int) -> Noise:
        """The noise of a block that starts at ``first``, from the beginning of the call."""
        self._first, self._draw = first, self._first_draw
        return self

    def draw(self, like: Tensor) -> Tensor:
        """Numbers for a batch of positions, a block of them, or a batch of slacks."""
        bucket, first = self._bucket, self._first
        number, self._draw = self._draw, self._draw + 1
        if bucket.shards:
            return self._of_shards(number, like)
        if len(bucket.parameters) == 1 and bucket.members is None and bucket.constraint.elementwise:
            return self._fill(0, number, like.numel(), first, like).view(like.shape)
        if self._is_position(like):
            return bucket.gather(self._parts(number, like))
        return self._slacks(number, like)

    def chances(self, share: int) -> list[Tensor]:
        """Numbers from 0 to 1 for the rounding of each parameter, in its shape.

        Args:
            share: which stretch of the step it is.
        """
        like = torch.empty(0, device=self._bucket.parameters[0].device)
        self._make = uniforms
        return self._parts(ROUNDING + share, like)

    def _is_position(self, like: Tensor) -> bool:
        """Whether numbers are wanted for positions; rows of one weight have as many slacks."""
        bucket = self._bucket
        if bucket.constraint.elementwise:
            return True
        sizes = sum(shape.numel() for shape in bucket.shapes)
        return like.numel() == len(self._seeds) * sizes and like.dim() == bucket.dims

    def _of_shards(self, number: int, like: Tensor) -> Tensor:
        """The numbers of the whole parameters at the indices that lie here."""
        bucket, first = self._bucket, self._first
        if like.numel() == 0:
            return torch.empty_like(like)
        if bucket.constraint.elementwise:
            if number not in self._kept:  # a batch that is done in blocks asks for each of them
                self._kept[number] = bucket.gather(self._parts(number, like))
            return self._kept[number].reshape(-1)[first : first + like.numel()].view(like.shape)
        if self._is_position(like):
            return bucket.gather(self._parts(number, like))
        return self._slacks(number, like)

    def _parts(self, number: int, like: Tensor) -> list[Tensor]:
        """The numbers of each parameter, in its shape."""
        bucket, found = self._bucket, []
        if not bucket.shards:
            drawn = self._several(number, [shape.numel() for shape in bucket.shapes], like)
            return [one.view(own.shape) for one, own in zip(drawn, bucket.parameters, strict=True)]
        for i, (own, shape) in enumerate(zip(bucket.parameters, bucket.shapes, strict=True)):
            shard = bucket.shards[i]
            if shard is None:
                found.append(self._fill(i, number, shape.numel(), 0, like).view(own.shape))
                continue
            first, size = shard.place.band()
            found.append(shard.place.of_band(self._fill(i, number, size, first, like)))
        return found

    def _slacks(self, number: int, like: Tensor) -> Tensor:
        bucket, copies = self._bucket, len(self._seeds)
        rest = like.shape[1:]
        entries = [like.shape[0]] if bucket.constraint.joint else bucket.rows
        each = rest.numel()
        sizes = [count // copies * each for count in entries]
        if bucket.shards and not bucket.constraint.joint:
            firsts = [0 if shard is None else shard.rows()[0] for shard in bucket.shards]
            ends = enumerate(zip(sizes, firsts, strict=True))
            drawn = [self._fill(i, number, size, first * each, like) for i, (size, first) in ends]
        else:
            drawn = self._several(number, sizes, like)
        return torch.cat(
            [one.view(count, *rest) for one, count in zip(drawn, entries, strict=True)]
        )

    def _several(self, draw: int, sizes: Sequence[int], like: Tensor) -> list[Tensor]:
        """Numbers of the first parameters; off a CPU, those of one size in one computation."""
        counted = isinstance(self._steps, Tensor)
        if like.device.type == "cpu" and not counted:
            return [self._fill(i, draw, size, 0, like) for i, size in enumerate(sizes)]
        found: dict[int, Tensor] = {}
        for size in dict.fromkeys(sizes):
            chosen = [i for i, own in enumerate(sizes) if own == size]
            numbers = self._make(self._keys(chosen, draw), size, 0, like.device).to(like.dtype)
            found.update(zip(chosen, numbers.view(len(chosen), -1).unbind(), strict=True))
        return [found[i] for i in range(len(sizes))]

    def _fill(self, index: int, draw: int, size: int, first: int, like: Tensor) -> Tensor:
        """Numbers of one parameter: [members · size]."""
        seeds, steps = self._seeds, self._steps
        out = torch.empty(len(seeds), size, dtype=like.dtype, device=like.device)
        kernel = self._make is normals and like.device.type == "cpu"
        if not isinstance(steps, Tensor) and kernel:
            kernel = fill(out, seeds, self._bucket.ordinals[index], steps[index], draw, first)
        if isinstance(steps, Tensor) or not kernel:
            out.copy_(self._make(self._keys([index], draw), size, first, like.device))
        return out.view(-1)

    def _keys(self, chosen: Sequence[int], draw: int) -> Sequence[int] | Tensor:
        """The keys of a draw of some parameters, each with those of all seeds."""
        ordinals, steps, seeds = self._bucket.ordinals, self._steps, self._seeds
        if isinstance(steps, Tensor):
            known = [signed(key_of(seed, ordinals[i])) for i in chosen for seed in seeds]
            counts = torch.stack([steps[i] for i in chosen for _ in seeds])
            return keys_on_device(self._bucket.constant(known), counts, draw)
        return [key_of(seed, ordinals[i], steps[i], draw) for i in chosen for seed in seeds]


# --- seeds ----------------------------------------------------------------------------------


def choose_seed(seed: int | None, parameters: Iterable[Tensor]) -> int:
    """The seed of an optimizer's noise.

    Without one from the user it comes from a copy of torch's global generator and from the first
    weights. So ``torch.manual_seed`` fixes it, while the global stream (data order, dropout) stays
    as it would be under any other optimizer.

    Raises:
        TypeError, ValueError: if it is no integer from 0 to 2**63 − 1.

    Example:
        >>> choose_seed(5, [])
        5
    """
    if seed is not None:
        return checks.seed("seed", seed)
    copy = torch.Generator()
    copy.set_state(torch.get_rng_state())
    drawn = torch.randint(SEEDS, (), generator=copy)
    return key_of(int(drawn), checksum(parameters)) % SEEDS


@torch.no_grad()
def checksum(parameters: Iterable[Tensor]) -> int:
    """A number that depends on every bit of some tensors, and on nothing else.

    Example:
        >>> checksum([torch.zeros(3)]) == checksum([torch.zeros(3)]) != checksum([torch.ones(3)])
        True
    """
    total = 0
    for parameter in parameters:
        total = (total * 31 + int(bit_sum(parameter)) + parameter.numel()) % 2**62
    return total


@torch.no_grad()
def bit_sum(tensor: Tensor) -> Tensor:
    """The sum of a tensor's bits as integers, modulo 2⁶²: it does not depend on an order.

    Example:
        >>> bit_sum(torch.tensor([1.0, 2.0])) == bit_sum(torch.tensor([2.0, 1.0]))
        tensor(True)
    """
    bits = tensor.detach().contiguous().view(INTEGERS[tensor.element_size()])
    return bits.sum(dtype=torch.int64) % 2**62


_owners: weakref.WeakValueDictionary[int, object] = weakref.WeakValueDictionary()
"""By their seeds, the optimizers that exist in this process and draw noise."""


def exchange_owner(seed: int, owner: object) -> object | None:
    """The other living optimizer that has this seed, if any; from now on this one has it."""
    if seed in _owners:
        gc.collect()  # an optimizer that nobody can reach may still be in memory
    other = _owners.get(seed)
    _owners[seed] = owner
    return None if other is owner else other
