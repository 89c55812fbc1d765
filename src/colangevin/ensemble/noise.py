"""The noise of a step: normals from a counter, under keys that belong to a member alone."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from colangevin.optimizers.counter import counter_normals


class MemberNoise:
    """Draws one member's normals; under ``vmap``, all members' at once.

    Args:
        keys: the member's keys in this step.
        first: index of the first number; later draws go on from it.
    """

    def __init__(self, keys: Tensor, first: int = 0) -> None:
        self._keys = keys
        self.used = first
        self._second: list[Tensor] = []

    def draw(self, like: Tensor) -> Tensor:
        """Normals of the shape of ``like``; every pair serves two halves of the tensor."""
        size = like.numel()
        first, second = self._pairs((size + 1) // 2)
        return torch.cat([first, second])[:size].reshape(like.shape).to(like.dtype)

    def draw_paired(self, like: Tensor) -> Tensor:
        """The same where two tensors of one shape are drawn: every pair serves both."""
        if self._second:
            drawn = self._second.pop()
        else:
            drawn, second = self._pairs(like.numel())
            self._second.append(second)
        return drawn.reshape(like.shape).to(like.dtype)

    def _pairs(self, count: int) -> tuple[Tensor, Tensor]:
        pairs = counter_normals(count, self._keys, self.used)
        self.used += count
        return pairs


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
