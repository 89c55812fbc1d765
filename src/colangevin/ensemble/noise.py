"""The noise of a step: normals from a counter, under keys that belong to a member alone."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from colangevin.optimizers.counter import counter_normals


class MemberNoise:
    """Draws one member's normals; under ``vmap``, all members' at once.

    All that a step needs is drawn together: the formula is long, and to compile it once a
    parameter would take a minute.

    Args:
        keys: the member's keys in this step.
        size: how many normals the step needs.
    """

    def __init__(self, keys: Tensor, size: int) -> None:
        self._rest = torch.cat(counter_normals((size + 1) // 2, keys)) if size else keys[:0]

    def draw(self, like: Tensor) -> Tensor:
        """The next normals, in the shape of ``like``."""
        size = like.numel()
        drawn, self._rest = self._rest[:size].to(like.dtype), self._rest[size:]
        if like.dim() == 2 and like.stride(0) < like.stride(1):
            return drawn.reshape(like.mT.shape).mT  # in the order of memory
        return drawn.reshape(like.shape)


class BatchNoise:
    """Draws for a batch of all members' matrices, parameter after parameter.

    Args:
        keys: [members, 4].
        first: index of the first number.
        rows: how many entries of the batch each parameter has a member.
    """

    def __init__(self, keys: Tensor, first: int, rows: Sequence[int]) -> None:
        self._keys, self.used, self._rows = keys, first, rows

    def draw(self, like: Tensor) -> Tensor:
        """Normals of the shape of ``like``, [parameters · members · rows, ...]."""
        members = len(self._keys)
        rest = like.shape[1:]
        size = sum(self._rows) * math.prod(rest)
        pairs = (size + 1) // 2
        halves = torch.func.vmap(lambda keys: torch.cat(counter_normals(pairs, keys, self.used)))(
            self._keys
        )
        self.used += pairs
        drawn = halves[:, :size].reshape(members, sum(self._rows), *rest)
        parts = [part.flatten(0, 1) for part in drawn.split(list(self._rows), dim=1)]
        return torch.cat(parts).to(like.dtype)
